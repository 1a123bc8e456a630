// The frame of the Node rows: the operations in order, one line for each, `operation TAB ok|skip|FAIL TAB detail`.
// A client has a method of each operation's name; `codec(name)` stands for the five codecs. What is done with groups is
// here, by members: `owned()`, `changes` (how many partitions were given or taken away, in order), `seen` (what was read,
// as `partition:offset`), `commit({partition: offset})` (gives the error's name) and `close()`.

const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
const OPERATIONS = ['connect', 'create-topic', 'describe', 'acks', ...CODECS, 'idempotent', 'records', 'seek', 'add-partitions', 'configs',
  'delete-records', 'delete-topic', 'group-consume', 'group-rebalance', 'static-member', 'cooperative-sticky', 'groups-admin']
const SECONDS = 60

class Skip extends Error {}

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
const short = value => String(typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 200)

/** Fails the operation when a value is not what it must be. */
function expect (what, seen, wanted) {
  if (JSON.stringify(seen) !== JSON.stringify(wanted)) throw new Error(`${what}: ${short(seen)} instead of ${short(wanted)}`)
}

/** Texts that a codec can shrink, each different. */
const values = (label, count) => Array.from({ length: count }, (_, number) => `${label}-${number} `.repeat(20))

/** `partition:offset` of a range. */
const places = (partition, from, to) => Array.from({ length: to - from }, (_, number) => `${partition}:${String(from + number).padStart(3, '0')}`)

async function until (done, what) {
  for (const deadline = Date.now() + 30_000; !done(); await sleep(10)) {
    if (Date.now() > deadline) throw new Error(`not within 30 s: ${what()}`)
  }
}

/** Waits until the members own so many partitions each, none of them twice. */
async function settle (members, ...counts) {
  const fits = () => members.every((member, i) => member.owned().length === counts[i]) && new Set(members.flatMap(member => member.owned())).size === counts.reduce((a, b) => a + b)
  await until(fits, () => members.map(member => `owns ${member.owned()} after ${member.changes.join(' ')}`).join(', '))
}

async function fill (client, topic, partitions, count) {
  await client.create(topic, partitions)
  for (let partition = 0; partition < partitions; partition++) await client.produce(topic, values(topic, count).map(value => ({ partition, value })))
}

async function closeAll (...members) {
  for (const member of members) await member.close()
}

const scenarios = {
  /** All is read and partly committed; the next member goes on where the commit stands. */
  async 'group-consume' (client) {
    const topic = 'group.consume'
    await fill(client, topic, 3, 100)
    const first = await client.member('consume', [topic])
    await until(() => first.seen.length >= 300, () => `read ${first.seen.length} of 300`)
    expect('read', first.seen.toSorted(), [0, 1, 2].flatMap(partition => places(partition, 0, 100)))
    const commits = [await first.commit(topic, { 0: 40, 1: 50, 2: 100 })]
    await first.close()
    const second = await client.member('consume', [topic])
    await until(() => second.seen.length >= 110, () => `read ${second.seen.length} of 110`)
    expect('read again', second.seen.toSorted(), [...places(0, 40, 100), ...places(1, 50, 100)])
    commits.push(await second.commit(topic, { 0: 100, 1: 99 }))
    await second.close()
    return `300 read, resumed at 40 50 100, commits ${commits.join(' ')}, committed ${await client.committed('consume', topic, 3)}`
  },

  /** Two share; when one leaves, the other takes all. */
  async 'group-rebalance' (client) {
    const topic = 'group.rebalance'
    await fill(client, topic, 4, 10)
    const one = await client.member('rebalance', [topic])
    await settle([one], 4)
    const other = await client.member('rebalance', [topic])
    await settle([one, other], 2, 2)
    await other.close()
    await settle([one], 4)
    await one.close()
    return 'alone 4, shared 2 and 2, alone again 4'
  },

  /** A member with an instance id comes back within its session: nobody rebalances. Who takes its id fences it. */
  async 'static-member' (client) {
    const topic = 'static.member'
    await fill(client, topic, 4, 10)
    const stays = await client.member('static', [topic], { instance: 'stays' })
    await settle([stays], 4)
    const leaves = await client.member('static', [topic], { instance: 'leaves' })
    await settle([stays, leaves], 2, 2)
    const before = leaves.owned(); const changes = stays.changes.join(' ')
    await leaves.close()
    const back = await client.member('static', [topic], { instance: 'leaves' })
    await settle([stays, back], 2, 2)
    await sleep(500) // two heartbeats, which would tell of a rebalance
    expect('partitions after the return', back.owned(), before)
    expect('changes of the other', stays.changes.join(' '), changes)
    const usurper = await client.member('static', [topic], { instance: 'leaves' })
    await settle([stays, usurper], 2, 2)
    const fenced = await back.commit(topic, { [before[0].split(':')[1]]: 1 })
    await closeAll(usurper, back, stays)
    return `came back to its 2 of 4, no rebalance; commit of the one replaced: ${fenced}`
  },

  /** Only what goes to the newcomer is taken away; what is left behind is only added. */
  async 'cooperative-sticky' (client) {
    const topic = 'cooperative.sticky'
    await fill(client, topic, 4, 10)
    const one = await client.member('cooperative', [topic], { strategy: 'cooperative-sticky' })
    await settle([one], 4)
    const other = await client.member('cooperative', [topic], { strategy: 'cooperative-sticky' })
    await settle([one, other], 2, 2)
    await other.close()
    await settle([one], 4)
    await one.close()
    return `changes ${one.changes.join(' ')}, ${other.changes.join(' ')}`
  },
}

async function run (client) {
  for (const operation of OPERATIONS) {
    const method = operation.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
    const work = async () => CODECS.includes(operation)
      ? client.codec(operation)
      : operation in scenarios ? scenarios[operation](client) : client[method]()
    let status = 'ok'; let detail; let timer
    try {
      detail = await Promise.race([work(), new Promise((_resolve, reject) => { timer = setTimeout(() => reject(new Error(`not done within ${SECONDS} s`)), SECONDS * 1000) })])
    } catch (error) {
      status = error instanceof Skip ? 'skip' : 'FAIL'
      detail = error instanceof Skip ? error.message : `${error.name}: ${error.message} ${(error.errors ?? []).map(each => each.message)}`
    } finally {
      clearTimeout(timer)
    }
    console.log(`${operation}\t${status}\t${String(detail).replace(/\s+/g, ' ').trim()}`)
  }
  process.exit(0)
}

// What the operation `records` sends. The second has two headers of one name, and an empty one.
const RECORDS = [
  { key: 'key', value: 'value' },
  { key: 'headers', value: 'value', headers: [['a', '1'], ['a', '2'], ['empty', '']] },
  { key: null, value: 'no key' },
  { key: 'no value', value: null },
  { key: '', value: '' },
  { key: 'ключ', value: 'значение' },
  { key: 'large', value: 'x'.repeat(1_000_000) },
]
const TOO_LARGE = 'x'.repeat(1_100_000)

module.exports = { CODECS, RECORDS, Skip, TOO_LARGE, closeAll, expect, fill, run, settle, sleep, until, values }
