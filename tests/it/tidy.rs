//! Rules of the source tree that the compiler does not hold.

use std::path::{Path, PathBuf};

/// The most lines that a file may have.
const LINES_MAX: usize = 500;

/// Scenario: `lib.rs` lists the modules in the order data meets them; every `crate::` path of a source is read.
/// Guarantee: a module uses only modules above it.
#[test]
fn a_module_uses_one_below_it() {
    let root = root();
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let order: Vec<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(order.len() > 8, "{order:?}");
    let rank = |module: &str| order.iter().position(|m| *m == module);
    let mut wrong = Vec::new();
    for file in sources(&root.join("src")) {
        let name = file.strip_prefix(root.join("src")).unwrap().components().next().unwrap();
        let module = name.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let Some(own) = rank(&module) else { continue };
        for used in crate_paths(&std::fs::read_to_string(&file).unwrap()) {
            if rank(&used).is_some_and(|other| other > own) {
                wrong.push(format!("{}: {module} uses {used}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Scenario: every source of the product and its tests is counted.
/// Guarantee: none is longer than a reader takes in.
#[test]
fn a_file_grows_past_its_limit() {
    let root = root();
    let files = [sources(&root.join("src")), sources(&root.join("tests/it"))].concat();
    let lines = |file: &PathBuf| std::fs::read_to_string(file).unwrap().lines().count();
    let long: Vec<_> = files.iter().map(|f| (f, lines(f))).filter(|(_, n)| *n > LINES_MAX).collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(lines(&root.join("src/main.rs")) < 60);
}

/// Scenario: every source is searched for absolute paths of a developer's machine.
/// Guarantee: it builds and runs on any other.
#[test]
fn a_source_names_a_machine() {
    let root = root();
    // Put together here, so that this file does not find itself.
    let paths: Vec<String> =
        ["work", "root", "home", "Users"].iter().map(|folder| format!("\"/{folder}/")).collect();
    for file in [sources(&root.join("src")), sources(&root.join("tests/it"))].concat() {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!paths.iter().any(|path| text.contains(path)), "{}", file.display());
    }
}

/// First segments of the `crate::` paths in a source, also of those in a `use crate::{...}` list.
fn crate_paths(text: &str) -> Vec<String> {
    let code: String =
        text.lines().filter(|l| !l.trim_start().starts_with("//")).map(|l| format!("{l}\n")).collect();
    let mut all = Vec::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(list) => all.extend(top_level(list)),
            None => all.push(word(after)),
        }
    }
    all
}

/// The first word of each entry of a `use` list, up to the brace that closes it.
fn top_level(list: &str) -> Vec<String> {
    let (mut depth, mut entry, mut all) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => all.push(word(std::mem::take(&mut entry).trim())),
            _ if depth == 0 => entry.push(c),
            _ => {}
        }
    }
    all.push(word(entry.trim()));
    all
}

/// Scenario: an option was added or changed. `SPANREEL_UPDATE=1` writes the reference anew.
/// Guarantee: the reference that people read is the one that the program has.
#[test]
fn the_option_reference_is_old() {
    let path = root().join("config/spanreel.yaml");
    let now = crate::harness::output(&["check-config", "--reference"]).stdout;
    if std::env::var_os("SPANREEL_UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    assert_eq!(std::fs::read(path).unwrap(), now);
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
