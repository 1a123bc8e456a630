//! The program: does what the command line asks for, and mostly that is to serve.

use std::io::{stderr, stdout};
use std::process::ExitCode;

use ottla::command_line::{self, Action};
use ottla::{logging, server};

fn main() -> ExitCode {
    match command_line::run(std::env::args_os(), &mut stdout(), &mut stderr()) {
        Action::Exit(code) => ExitCode::from(code),
        Action::Serve(config) => {
            logging::init();
            server::run(*config)
        }
    }
}
