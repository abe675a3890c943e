//! The specification, checked over the wire by the suite that also judges the distribution registry.

use fixtures::conformance::deviations;
use fixtures::registry::Config;

#[test]
fn nothing_deviates_from_the_specification() {
    let registry = Config::dvcr(env!("CARGO_BIN_EXE_dvcr")).start();
    let found: Vec<String> = deviations(&registry.wire()).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
