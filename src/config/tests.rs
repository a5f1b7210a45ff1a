use std::io::Write as _;

use super::*;

fn load(yaml: &str, variables: &[(&str, &str)]) -> Result<Loaded, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(yaml.as_bytes()).unwrap();
    let variables = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    Config::load(Some(file.path()), variables)
}

#[test]
fn an_unknown_key_is_taken_in_silence() {
    let error = load("listen:\n  apy: 127.0.0.1:1\n", &[]).unwrap_err().to_string();
    assert!(error.contains("apy"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    let error = load("lisn: {}\n", &[]).unwrap_err().to_string();
    assert!(error.contains("lisn"), "{error}");
}

#[test]
fn an_empty_file_is_refused() {
    assert_eq!(load("", &[]).unwrap().config, Config::default());
    assert_eq!(load("# nothing yet\n\n", &[]).unwrap().config, Config::default());
}

#[test]
fn a_file_wins_over_a_variable() {
    let yaml = "data: /a\nlisten:\n  api: 127.0.0.1:5000\n";
    let loaded = load(yaml, &[("SPANREEL_LISTEN_API", "127.0.0.1:6000"), ("SPANREEL_DATA", "7")]).unwrap();
    assert_eq!(loaded.config.listen.api.port(), 6000);
    assert_eq!(loaded.config.data, PathBuf::from("7"));
    assert_eq!(loaded.variables, ["SPANREEL_DATA", "SPANREEL_LISTEN_API"]);
}

#[test]
fn a_variable_of_the_platform_stops_the_server() {
    let loaded = load("", &[("SPANREEL_SERVICE_HOST", "10.0.0.1"), ("SPANREEL_PORT", "tcp://x")]).unwrap();
    assert_eq!(loaded.config, Config::default());
}

/// Scenario: keys are given by a variable; a whole section is; the name of an option is misspelt.
/// Guarantee: what only the file can set is an error that says so, and any other name that nothing reads is told.
#[test]
fn keys_in_a_variable_are_ignored_in_silence() {
    for (variable, option) in [("SPANREEL_ACCESS_KEYS", "access.keys"), ("SPANREEL_OTLP", "otlp")] {
        let error = load("", &[(variable, "[]")]).unwrap_err().to_string();
        assert!(error.contains(variable) && error.contains(option) && error.contains("file"), "{error}");
    }
    let read = ["SPANREEL_CONFIG", "SPANREEL_URL", "SPANREEL_KEY", "SPANREEL_LOG", "SPANREEL_DATA"];
    let platform = ["SPANREEL_PORT_4317_TCP_ADDR", "SPANREEL_SERVICE_PORT_API", "SPANREELX"];
    let unknown = ["SPANREEL_ACCESS_KEY", "SPANREEL_DATTA", "SPANREEL_STORE_X"];
    let all: Vec<_> = read.into_iter().chain(platform).chain(unknown).map(|name| (name, "x")).collect();
    assert_eq!(load("", &all).unwrap().ignored, unknown);
}

#[test]
fn a_bad_variable_is_not_named() {
    let error = load("", &[("SPANREEL_LISTEN_API", "nowhere")]).unwrap_err().to_string();
    assert!(error.contains("SPANREEL_LISTEN_API"), "{error}");
}

/// Scenario: requests of 4 GiB are to be taken, by the file or by a variable.
/// Guarantee: refused, with the most that can be; a row of one would fit no table.
#[test]
fn a_request_that_no_table_can_hold_is_taken() {
    let by_file = load("otlp: {request_bytes_max: 4294967296}\n", &[]).unwrap_err().to_string();
    let by_variable = load("", &[("SPANREEL_OTLP_REQUEST_BYTES_MAX", "4294967296")]).unwrap_err().to_string();
    assert!(by_file.contains("otlp.request_bytes_max") && by_file.contains("134217728"), "{by_file}");
    assert_eq!(by_file, by_variable);
    assert!(load("otlp: {request_bytes_max: 134217728}\n", &[]).is_ok());
}

#[test]
fn the_reference_is_not_a_configuration() {
    let text = reference::reference();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    assert_eq!(Config::load(Some(file.path()), []).unwrap().config, Config::default());
    let options = text.lines().filter(|l| l.contains(": ") && !l.trim_start().starts_with('#')).count();
    let mut all = Vec::new();
    leaves(&serde_json::to_value(Config::default()).unwrap(), &mut Vec::new(), &mut all, &mut Vec::new());
    // One more than the leaves: `access.keys` is a list.
    assert_eq!(options, all.len() + 1, "{text}");
}
