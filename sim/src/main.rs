//! Runs simulations.
#![forbid(unsafe_code)]
use cadran_sim::*;
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let mut tally = Tally::default();
    for seed in args[0]..args[1] {
        let script = Script::new(seed, Scale::SMALL);
        match play(&script) {
            Ok(t) => tally.add(&t),
            Err(v) => {
                println!("seed {seed}: {v}");
                if args.len() > 2 {
                    let (s, v) = shrink(&script, v, 400);
                    println!("{} acts: {v}", s.len());
                    for l in s.lines() { println!("{l}"); }
                }
            }
        }
    }
    println!("{tally:?}");
}
