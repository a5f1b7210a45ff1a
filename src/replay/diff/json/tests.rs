use proptest::{collection, prelude::*};
use serde_json::json;

use super::*;

fn found(before: &Value, after: &Value) -> Vec<Change> {
    changes(Place::both(""), before, after, &mut Effort::default())
}

/// Path, before, after.
fn told(before: &Value, after: &Value) -> Vec<(String, Value, Value)> {
    let absent = || json!("(absent)");
    let tell = |c: Change| (c.path, c.before.unwrap_or_else(absent), c.after.unwrap_or_else(absent));
    found(before, after).into_iter().map(tell).collect()
}

#[test]
fn order_of_members_or_spelling_of_a_number_makes_a_difference() {
    let a: Value = serde_json::from_str(r#"{"a": 1, "b": {"x": [1.0, 2.5], "y": null}}"#).unwrap();
    let b: Value = serde_json::from_str(r#"{"b": {"y": null, "x": [1, 2.5e0]}, "a": 1.0}"#).unwrap();
    assert_eq!(found(&a, &b), []);
    assert!(same(&a, &b));
    assert_eq!(Digest::of(&a), Digest::of(&b));
    // Beyond the exact floats, two whole numbers are two numbers.
    assert!(!same(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)));
}

#[test]
fn a_member_is_named_by_another_path() {
    let a = json!({"q": "red shoes", "n": 1, "gone": null, "a/b~c": {"deep": [1, 2]}});
    let b = json!({"q": "blue shoes", "n": "1", "come": [], "a/b~c": {"deep": [1, 3]}});
    let (absent, told) = (json!("(absent)"), told(&a, &b));
    assert_eq!(
        told,
        [
            ("/a~1b~0c/deep/1".into(), json!(2), json!(3)),
            ("/come".into(), absent.clone(), json!([])),
            ("/gone".into(), Value::Null, absent),
            ("/n".into(), json!(1), json!("1")),
            ("/q".into(), json!("red shoes"), json!("blue shoes")),
        ]
    );
    for (path, before, after) in told {
        assert!(a.pointer(&path).is_none_or(|value| *value == before), "{path}");
        assert!(b.pointer(&path).is_none_or(|value| *value == after), "{path}");
    }
}

#[test]
fn an_item_that_came_in_changes_all_that_follow() {
    let (a, b) = (json!([1, 2, 3, {"x": 1}, 5]), json!([0, 1, 2, 3, {"x": 2}, 5]));
    let found = found(&a, &b);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].path.as_str(), &found[0].after), ("/0", &Some(json!(0))));
    assert_eq!((found[1].path.as_str(), found[1].path_before.as_deref()), ("/4/x", Some("/3/x")));
}

#[test]
fn two_texts_are_told_without_their_words() {
    let found = found(&json!({"q": "a b"}), &json!({"q": "a c"}));
    assert_eq!(found[0].words.len(), 3);
    assert!(!serde_json::to_string(&found).unwrap().contains("path_before"));
}

#[test]
fn a_document_that_is_another_is_told_in_a_million_changes() {
    let list = |from: usize| json!({"all": (from..from + 5_000).collect::<Vec<_>>()});
    let found = found(&list(0), &list(10_000));
    assert_eq!((found.len(), found[0].path.as_str()), (1, ""));
}

#[test]
fn a_null_comes_back_as_absent() {
    let found = found(&json!({"a": null}), &json!({}));
    let again: Vec<Change> = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
    assert_eq!(again, found);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        (0_u8..4).prop_map(|n| json!(f64::from(n) / 2.0)),
        "[ab ]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            collection::btree_map("[a-c/~]{0,2}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn equal_values_differ_or_others_do_not(a in any_value(), b in any_value()) {
        assert_eq!(found(&a, &a), []);
        assert_eq!(found(&a, &b).is_empty(), same(&a, &b));
        assert_eq!(Digest::of(&a) == Digest::of(&b), same(&a, &b));
        for change in found(&a, &b) {
            let at = change.path_before.as_ref().unwrap_or(&change.path);
            assert!(change.before.is_none() || a.pointer(at) == change.before.as_ref(), "{change:?}");
            assert!(change.after.is_none() || b.pointer(&change.path) == change.after.as_ref(), "{change:?}");
            assert_eq!(change.clone().reversed().reversed(), change);
        }
    }
}
