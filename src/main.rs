//! The program: reads its configuration, starts a broker, waits for a signal.

fn main() {}
