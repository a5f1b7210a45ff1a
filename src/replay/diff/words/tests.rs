use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn marked(before: &str, after: &str) -> String {
    let pieces = diff(before, after, &mut Effort::default());
    assert_leads(&pieces, before, after);
    let mark = |piece: &Piece| match piece.op {
        Op::Equal => piece.text.clone(),
        Op::Delete => format!("[-{}-]", piece.text),
        Op::Insert => format!("{{+{}+}}", piece.text),
    };
    pieces.iter().map(mark).collect()
}

fn assert_leads(pieces: &[Piece], before: &str, after: &str) {
    let without = |op: Op| -> String {
        pieces.iter().filter(|piece| piece.op != op).map(|piece| piece.text.as_str()).collect()
    };
    assert!(without(Op::Insert) == before && without(Op::Delete) == after, "{pieces:?}");
}

#[test]
fn a_changed_word_is_lost_among_those_that_stay() {
    let text = marked("It is sunny in Paris today.", "It is rainy in Paris today.");
    assert_eq!(text, "It is [-sunny-]{+rainy+} in Paris today.");
    assert_eq!(marked("a b c d", "a b d"), "a b [-c -]d");
    assert_eq!(
        marked("the red fox runs off", "the blue cat runs off"),
        "the [-red fox-]{+blue cat+} runs off"
    );
}

#[test]
fn a_text_without_blanks_is_one_word() {
    assert_eq!(marked("今天巴黎是晴天", "今天巴黎是雨天"), "今天巴黎是[-晴-]{+雨+}天");
    assert_eq!(marked("na\u{ef}ve", "na\u{ef}f"), "[-na\u{ef}ve-]{+na\u{ef}f+}");
}

#[test]
fn texts_that_only_share_a_few_words_are_shredded() {
    let (a, b) =
        ("The order of the customer was sent on Monday", "A refund is the best that one can get here");
    assert_eq!(marked(a, b), format!("[-{a}-]{{+{b}+}}"));
}

#[test]
fn an_end_or_an_empty_text_is_lost() {
    assert_eq!(marked("", ""), "");
    assert_eq!(marked("", "a"), "{+a+}");
    assert_eq!(marked("a", ""), "[-a-]");
    assert_eq!(marked("a b", "a b"), "a b");
    assert_eq!(marked("a", "a a"), "a{+ a+}");
}

/// Two texts of many lines, more than are compared by words, of which one line differs in a word.
#[test]
fn a_word_in_a_long_text_costs_the_whole_text() {
    let text = |n: usize, word: &str| -> String {
        (0..4_000)
            .map(|l| if l % n == 7 { format!("line {l} says {word}\n") } else { format!("line {l}\n") })
            .collect()
    };
    let marked = marked(&text(1_000, "yes"), &text(1_000, "no"));
    assert_eq!(marked.matches("[-yes-]{+no+}").count(), 4, "{marked}");
}

/// Scenario: two texts of 2 MB that share no word, no line, or every second word.
/// Guarantee: the comparison ends soon, and still leads from the one to the other.
#[test]
fn two_long_texts_hang_the_comparison() {
    let text = |end: &str, salt: usize| -> String {
        (0..300_000_usize).map(|n| format!("{}{end}", n.wrapping_mul(salt) % 999_983)).collect()
    };
    let begun = Instant::now();
    for (a, b) in [
        (text(" ", 7_919), text(" ", 104_729)),
        (text("\n", 7_919), text("\n", 104_729)),
        (text(" x ", 7_919), text(" x ", 104_729)),
        ("a".repeat(2 << 20), "b".repeat(2 << 20)),
        ("a\n".repeat(1 << 20), "a\nb\n".repeat(1 << 19)),
        ("é".repeat(1 << 20), "è".repeat(1 << 20)),
    ] {
        assert_leads(&diff(&a, &b, &mut Effort::default()), &a, &b);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn many_costly_texts_cost_without_end() {
    let text = |salt: usize| -> String {
        (0..2_400_usize).map(|n| format!("{} ", n.wrapping_mul(salt) % 9_973)).collect()
    };
    let (a, b, mut effort) = (text(7_919), text(104_729), Effort(EFFORT_MAX / 20));
    let pieces = (0..1_000).map(|_| diff(&a, &b, &mut effort)).last().unwrap();
    assert!(effort.is_spent());
    assert_leads(&pieces, &a, &b);
    assert_eq!(pieces.iter().filter(|piece| piece.op != Op::Equal).count(), 2);
}

/// Few words, so that much is alike.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        ".{0,40}",
        proptest::collection::vec(
            prop::sample::select(vec!["a", "b", "é", " ", "\n", "、", "word", "\u{301}"]),
            0..60
        )
        .prop_map(|words| words.concat()),
    ]
}

proptest! {
    #[test]
    fn pieces_lead_elsewhere(a in any_text(), b in any_text()) {
        let there = diff(&a, &b, &mut Effort::default());
        assert_leads(&there, &a, &b);
        assert!(there.iter().all(|piece| !piece.text.is_empty()));
        assert_eq!(there.iter().all(|piece| piece.op == Op::Equal), a == b);
        let back = reversed(there.clone());
        assert_leads(&back, &b, &a);
        assert_eq!(reversed(back), there);
    }
}
