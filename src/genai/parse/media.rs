//! Images, sound and files of all shapes -> `uri`, `blob` and `file` parts of the OTel GenAI schema.

use serde_json::{Map, Value, json};

/// Types that producers give to media, with the modality that they mean.
const KINDS: &[(&str, &str)] = &[
    ("image-url", "image"),
    ("audio-url", "audio"),
    ("video-url", "video"),
    ("document-url", "document"),
    ("image_url", "image"),
    ("input_image", "image"),
    ("image", "image"),
    ("input_audio", "audio"),
    ("audio", "audio"),
    ("video", "video"),
    ("document", "document"),
    ("input_file", "document"),
    ("file", "document"),
    ("binary", "document"),
    ("media", "document"),
];

/// The part for a block of type `kind`; `None` when it is no media, or media in the schema's own words.
pub(super) fn part(kind: &str, block: &Map<String, Value>) -> Option<Map<String, Value>> {
    let modality = KINDS.iter().find(|(name, _)| *name == kind)?.1;
    if block.contains_key("modality") {
        return None;
    }
    let inner = [kind, "source", "media", "file"].iter().find_map(|key| block.get(*key)?.as_object());
    let text = |keys: &[&str]| {
        let of = |object: &Map<String, Value>| {
            keys.iter().find_map(|k| object.get(*k)?.as_str().map(str::to_owned))
        };
        inner.and_then(of).or_else(|| of(block))
    };
    let mime = text(&["mime_type", "media_type", "mediaType", "mimeType", "contentType"]);
    let mime = mime.or_else(|| text(&["format"]).map(|format| format!("{modality}/{format}")));
    let url = text(&["url", "image_url", "uri", "file_url", "fileUri", "file_uri", "image"])
        .filter(|u| u.contains(':'));
    let id = text(&["file_id"]);
    let data = text(&["data", "content", "bytes", "file_data", "image"]);
    let made = match (url, id, data) {
        (Some(url), ..) => match data_url(&url) {
            Some((mime, data)) => blob(modality, Some(mime), data),
            None => {
                json!({"type": "uri", "modality": of_mime(mime.as_deref(), modality), "uri": url, "mime_type": mime})
            }
        },
        (None, Some(id), _) => {
            json!({"type": "file", "modality": modality, "file_id": id, "mime_type": mime})
        }
        (None, None, Some(data)) => blob(modality, mime.as_deref(), &data),
        (None, None, None) => return None,
    };
    let Value::Object(mut made) = made else { return None };
    made.retain(|_, value| !value.is_null());
    Some(made)
}

/// The part of a block that names its type by its member: Gemini's `inlineData` and `fileData`, Bedrock's `image`.
pub(super) fn untyped(block: &Map<String, Value>) -> Option<Map<String, Value>> {
    let (key, inner) =
        ["inlineData", "inline_data", "fileData", "file_data", "image", "document", "video", "media"]
            .iter()
            .find_map(|key| Some((*key, block.get(*key)?.as_object()?)))?;
    let mime = ["mimeType", "mime_type", "contentType"].iter().find_map(|k| inner.get(*k)?.as_str());
    let kind = match (key, of_mime(mime, "document")) {
        ("image" | "document" | "video", _) => key,
        (_, modality) => {
            KINDS.iter().map(|(kind, _)| *kind).find(|kind| *kind == modality).unwrap_or("document")
        }
    };
    let mut flat = inner.clone();
    if let Some(source) = flat.remove("source").and_then(|s| s.as_object().cloned()) {
        flat.extend(source);
    }
    part(kind, &flat)
}

fn blob(modality: &str, mime: Option<&str>, data: &str) -> Value {
    json!({"type": "blob", "modality": of_mime(mime, modality), "mime_type": mime, "content": data})
}

/// The media type and the base64 text of a `data:` URL.
fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

fn of_mime<'a>(mime: Option<&'a str>, otherwise: &'a str) -> &'a str {
    let class = mime.and_then(|m| m.split('/').next());
    class.filter(|c| ["image", "audio", "video"].contains(c)).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_keeps_the_shape_of_its_producer() {
        let of = |block: Value| {
            let block = block.as_object().unwrap().clone();
            let found = match block.get("type").and_then(Value::as_str) {
                Some(kind) => part(kind, &block),
                None => untyped(&block),
            };
            Value::Object(found.unwrap())
        };
        let uri = json!({"type": "uri", "modality": "image", "uri": "https://x/a.png"});
        assert_eq!(of(json!({"type": "image-url", "url": "https://x/a.png"})), uri);
        assert_eq!(of(json!({"type": "image_url", "image_url": {"url": "https://x/a.png"}})), uri);
        assert_eq!(of(json!({"type": "input_image", "image_url": "https://x/a.png"})), uri);
        assert_eq!(of(json!({"type": "image", "source": {"type": "url", "url": "https://x/a.png"}})), uri);
        let blob = json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"});
        assert_eq!(
            of(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}})),
            blob
        );
        assert_eq!(of(json!({"type": "binary", "media_type": "image/png", "content": "QUJD"})), blob);
        let source = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
        assert_eq!(of(json!({"type": "image", "source": source})), blob);
        assert_eq!(of(json!({"inlineData": {"mimeType": "image/png", "data": "QUJD"}})), blob);
        assert_eq!(of(json!({"image": {"format": "png", "source": {"bytes": "QUJD"}}})), blob);
        let sound = json!({"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "QUJD"});
        assert_eq!(
            of(json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}})),
            sound
        );
        assert_eq!(part("uri", &Map::new()), None);
    }
}
