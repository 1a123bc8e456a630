//! The clients of a script, and what they know: who they are, and in which
//! generation.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::requests::{self, Words};

/// How long an answer that must come may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing may come until nothing will: for a broker whose answers are
/// not known beforehand.
const QUIET: Duration = Duration::from_millis(300);

/// What a connection that the broker closes gives.
pub const CLOSED: &str = "closed";

/// Reads an answer; what it returns puts the answer into words.
pub type Hear = Box<dyn FnOnce(&mut Client, &mut Known) -> Tell>;

/// Puts an answer into words.
pub type Tell = Box<dyn FnOnce(&mut Names) -> String>;

/// One client.
struct Actor {
    client: Client,
    known: Known,
    waiting: Option<Hear>,
}

impl Actor {
    /// Connects. The greeting makes sure that a thread of the broker has taken the
    /// connection: its requests are read in their turn from then on.
    fn enter(address: SocketAddr) -> Self {
        let mut client = Client::connect(address);
        requests::say_hello(&mut client);
        let known = Known { member: String::new(), generation: -1 };
        Self { client, known, waiting: None }
    }
}

/// What a client knows.
#[derive(Clone, Default)]
pub struct Known {
    pub member: String,
    pub generation: i32,
}

/// Short names for what the broker makes up.
#[derive(Default)]
pub struct Names(Vec<(String, String)>);

impl Names {
    /// The short name of a member.
    pub fn of(&mut self, member: &str) -> String {
        // Ids that a broker makes up end with a UUID.
        if member.len() < 37 {
            return member.to_owned();
        }
        if let Some((_, name)) = self.0.iter().find(|(known, _)| known == member) {
            return name.clone();
        }
        let name = format!("m{}", self.0.len() + 1);
        self.0.push((member.to_owned(), name.clone()));
        name
    }

    fn member(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(_, known)| known == name).map(|(member, _)| member.clone())
    }
}

/// All clients of a script.
pub struct Cast {
    address: SocketAddr,
    actors: BTreeMap<String, Actor>,
    names: Names,
    group: String,
    /// One and more for each thread that reads requests.
    bystanders: Vec<Client>,
}

impl Cast {
    /// Nobody yet.
    pub fn at(address: SocketAddr) -> Self {
        let group = "g".to_owned();
        let count = 2 * std::thread::available_parallelism().map_or(1, Into::into);
        let bystanders = (0..count).map(|_| Client::connect(address)).collect();
        Self { address, actors: BTreeMap::new(), names: Names::default(), group, bystanders }
    }

    /// Does one step: `WHO VERB key=value ...`. Returns the answers that come;
    /// `expected` is how many of them are known to come.
    pub fn step(&mut self, line: &str, expected: usize) -> String {
        let mut words = line.split(' ');
        let (who, verb) = (words.next().unwrap(), words.next().unwrap());
        if who == "group" {
            // A new scene: new clients that know nothing.
            self.actors.clear();
            self.names = Names::default();
            self.group = verb.to_owned();
            return String::new();
        }
        if verb == "until-served" {
            let mut client = Client::connect(self.address);
            let begun = Instant::now();
            while !requests::is_served(&mut client) && begun.elapsed() < PATIENCE {}
            return String::new();
        }
        if verb == "until-forgotten" {
            let mut client = Client::connect(self.address);
            let begun = Instant::now();
            let topic = words.next().unwrap();
            while requests::knows(&mut client, &self.group, topic) && begun.elapsed() < PATIENCE {}
            return String::new();
        }
        if verb == "hangs-up" {
            self.actors.remove(who);
            return String::new();
        }
        self.actors.entry(who.to_owned()).or_insert_with(|| Actor::enter(self.address));
        if self.actors[who].waiting.is_some() {
            return "is waiting".to_owned();
        }
        let words: Vec<String> = words.map(|word| self.resolve(word)).collect();
        let words = Words::new(&self.group, &words);
        let actor = self.actors.get_mut(who).unwrap();
        let versions = words.versions();
        if versions.clone().count() > 1 {
            return self.in_each_version(who, verb, &words, versions);
        }
        actor.waiting = Some(requests::send(&mut actor.client, &actor.known, verb, &words));
        let is_recorded = std::env::var_os("UPDATE").is_some();
        let answers = match verb {
            // These may wait for others, or be what others wait for.
            "join" | "sync" | "leave" if is_recorded => self.until_quiet(verb == "leave"),
            "join" | "sync" => self.await_answers(expected),
            _ => self.await_answers(expected.max(1)),
        };
        answers.join("\n")
    }

    /// `@a` is the member that `a` is, `@m1` the first that was made up.
    fn resolve(&self, word: &str) -> String {
        let mut resolved = String::new();
        let mut pieces = word.split('@');
        resolved.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(piece.len());
            let (name, rest) = piece.split_at(end);
            let known = self.actors.get(name).map(|actor| actor.known.member.clone());
            let known = known.filter(|known| !known.is_empty());
            let member = known.or_else(|| self.names.member(name));
            resolved.push_str(&member.unwrap_or_else(|| "nobody".to_owned()));
            resolved.push_str(rest);
        }
        resolved
    }

    /// The same request in each of many versions; versions with the same answer
    /// are told of together.
    fn in_each_version(
        &mut self,
        who: &str,
        verb: &str,
        words: &Words,
        versions: std::ops::RangeInclusive<i16>,
    ) -> String {
        let mut answers: Vec<(i16, i16, String)> = Vec::new();
        for version in versions {
            let actor = self.actors.get_mut(who).unwrap();
            let words = words.in_version(version);
            let hear = requests::send(&mut actor.client, &actor.known, verb, &words);
            assert!(actor.client.is_ready(PATIENCE), "no answer to {verb} version {version}");
            let answer = hear(&mut actor.client, &mut actor.known)(&mut self.names);
            if answer == CLOSED {
                actor.client = Client::connect(self.address);
            }
            match answers.last_mut() {
                Some((_, last, same)) if *same == answer => *last = version,
                _ => answers.push((version, version, answer)),
            }
        }
        let line = |(first, last, answer): &(i16, i16, String)| format!("v{first}-{last} {answer}");
        answers.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn await_answers(&mut self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        let mut answers = Vec::new();
        while answers.len() < count && begun.elapsed() < PATIENCE {
            self.hear_all(&mut answers);
        }
        if count == 0 {
            // What comes next must not overtake it on another thread of the broker.
            for bystander in &mut self.bystanders {
                requests::say_hello(bystander);
            }
        }
        self.tell(answers)
    }

    fn until_quiet(&mut self, is_answered: bool) -> Vec<String> {
        let mut answers = Vec::new();
        let mut last = Instant::now();
        while last.elapsed() < QUIET || (is_answered && answers.is_empty()) {
            let before = answers.len();
            self.hear_all(&mut answers);
            if answers.len() > before {
                last = Instant::now();
            }
        }
        self.tell(answers)
    }

    fn hear_all(&mut self, answers: &mut Vec<(String, Tell)>) {
        for (who, actor) in &mut self.actors {
            if actor.waiting.is_some() && actor.client.is_ready(Duration::from_millis(2)) {
                let hear = actor.waiting.take().unwrap();
                answers.push((who.clone(), hear(&mut actor.client, &mut actor.known)));
            }
        }
    }

    /// Names are given in the order of clients, whoever was answered first.
    fn tell(&mut self, mut answers: Vec<(String, Tell)>) -> Vec<String> {
        answers.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (who, _) in &answers {
            self.names.of(&self.actors[who].known.member);
        }
        let mut lines = Vec::new();
        for (who, tell) in answers {
            let answer = tell(&mut self.names);
            if answer == CLOSED {
                self.actors.remove(&who);
            }
            lines.push(format!("{who}: {answer}"));
        }
        lines
    }
}
