use std::io::Write as _;

use super::*;

fn capture(path: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(path)).unwrap()
}

fn traces() -> Vec<u8> {
    capture("py-agent-framework/002.traces.pb")
}

fn signals(bytes: &[u8]) -> Vec<Signal> {
    let of = |r: &Request<'_>| if let Request::Protobuf(signal, _) = r { *signal } else { panic!("{r:?}") };
    requests(bytes).unwrap().iter().map(of).collect()
}

#[test]
fn a_capture_is_told_as_another_signal() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut seen = 0;
    let folders = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).filter(|f| f.is_dir());
    for file in folders.flat_map(|f| std::fs::read_dir(f).unwrap()) {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let want = match name.split_once('.').map(|(_, rest)| rest) {
            Some("traces.pb") => Signal::Traces,
            Some("logs.pb") => Signal::Logs,
            Some("metrics.pb") => Signal::Metrics,
            _ => continue,
        };
        assert_eq!(signals(&std::fs::read(&path).unwrap()), [want], "{path:?}");
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_frame_behind_a_length_is_lost() {
    let (one, two) = (traces(), capture("py-agent-framework/006.logs.pb"));
    let u32_framed = |length: fn(u32) -> [u8; 4]| {
        let frame = |b: &Vec<u8>| [&length(u32::try_from(b.len()).unwrap())[..], b].concat();
        [frame(&one), frame(&two)].concat()
    };
    let want = [Signal::Traces, Signal::Logs];
    assert_eq!(signals(&u32_framed(u32::to_le_bytes)), want);
    assert_eq!(signals(&u32_framed(u32::to_be_bytes)), want);
    let mut delimited = Vec::new();
    for frame in [&one, &two] {
        prost::encoding::encode_varint(frame.len() as u64, &mut delimited);
        delimited.extend_from_slice(frame);
    }
    assert_eq!(signals(&delimited), want);
}

#[test]
fn a_file_that_is_no_telemetry_is_taken() {
    let half = traces();
    for bad in [&b""[..], b"  \n", b"# Notes", b"\x89PNG\r\n\x1a\n", &half[..half.len() / 2]] {
        assert!(requests(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn a_compressed_file_is_refused_or_half_of_one_taken() {
    let plain = traces();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&*plain, 1).unwrap();
    for packed in [gzip, zstd] {
        assert_eq!(open(packed.clone()).unwrap(), plain);
        assert!(open(packed[..packed.len() / 2].to_vec()).is_err());
    }
}

#[test]
fn lines_of_json_are_read_as_one_object() {
    let lines = requests(b"{\"resourceSpans\":[]}\n\n{\"resourceLogs\":[]}\n").unwrap();
    assert_eq!(lines, [Request::Json(b"{\"resourceSpans\":[]}"), Request::Json(b"{\"resourceLogs\":[]}")]);
    let one = b"{\n  \"resourceSpans\": []\n}";
    assert_eq!(requests(one).unwrap(), [Request::Json(one)]);
}

/// Scenario: files of the collector's file exporter with `compression: zstd`, in JSON and in protobuf: each request is
/// compressed by itself, behind its length. A file that was cut, and one that opens into too much.
/// Guarantee: every request is found; the others are refused.
#[test]
fn requests_that_are_compressed_one_by_one_are_refused() {
    let framed = |requests: &[&[u8]]| -> Vec<u8> {
        let frames = requests.iter().map(|r| zstd::encode_all(*r, 1).unwrap());
        frames.flat_map(|f| [&u32::try_from(f.len()).unwrap().to_be_bytes()[..], &f].concat()).collect()
    };
    let (one, two) = (traces(), capture("py-agent-framework/006.logs.pb"));
    let opened = open(framed(&[&one, &two])).unwrap();
    assert_eq!(signals(&opened), [Signal::Traces, Signal::Logs]);
    let (first, second) = (br#"{"resourceSpans":[]}"#, br#"{"resourceLogs":[]}"#);
    let opened = open(framed(&[first, second])).unwrap();
    assert_eq!(requests(&opened).unwrap(), [Request::Json(first), Request::Json(second)]);
    let mut cut = framed(&[first, second]);
    let _ = cut.pop();
    assert!(open(cut).and_then(|bytes| Ok(requests(&bytes)?.len())).is_err());
}
