//! Replays what a real Kubernetes answered. The recording is not part of this repository.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::toy::{Server, run};

const VECTORS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures/vectors/kube-api-golden-1.36.json");

/// Requests that need a part of the wire format that is not served: server-side apply, and what
/// depends on it.
fn in_scope(number: usize, vector: &Value) -> bool {
    let media_type = vector["hdr"]["Content-Type"].as_str().unwrap_or("");
    // 100 patches the object that server-side apply made.
    !media_type.starts_with("application/apply-patch") && number != 100
}

#[test]
fn answers_have_the_codes_of_kubernetes() {
    let Ok(text) = std::fs::read_to_string(Path::new(VECTORS)) else {
        println!("skipped: no recorded answers at ../shared/fixtures/vectors");
        return;
    };
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    run(async move {
        let server = Server::new().await;
        let (mut codes, mut bodies, mut scoped) = (0, 0, 0);
        let mut wrong = Vec::new();
        for (number, vector) in vectors.iter().enumerate() {
            let body = body(&server, &vector["body"]).await;
            let mut headers: Vec<(&str, &str)> = Vec::new();
            for (name, value) in vector["hdr"].as_object().into_iter().flatten() {
                headers.push((name, value.as_str().unwrap()));
            }
            let text = |key: &str| vector[key].as_str().unwrap();
            let reply = server.send(text("m"), text("path"), &headers, &body).await;
            let same_code = vector["status"] == json!(reply.code);
            codes += usize::from(same_code);
            let same_body = match &vector["resp"] {
                Value::String(text) => *text == reply.text,
                value => normal(value) == normal(&serde_json::from_str(&reply.text).unwrap_or(Value::Null)),
            };
            bodies += usize::from(same_body);
            if !same_body && std::env::var_os("SHOW").is_some() {
                println!("{number} {}\n  want {}\n  have {}", text("name"), normal(&vector["resp"]), reply.text);
            }
            if in_scope(number, vector) {
                scoped += 1;
                if !same_code {
                    wrong.push(format!("{number} {}: {} {}", text("name"), reply.code, reply.text));
                }
                let warnings: Vec<String> = strings(&vector["warn"]);
                if same_code && !warnings.is_empty() {
                    assert_eq!(reply.warnings.len(), warnings.len(), "{number}: {:?}", reply.warnings);
                }
            }
        }
        let all = vectors.len();
        println!("of {all} answers {codes} have the same code and {bodies} the same body; in scope: {scoped}");
        assert_eq!(wrong, Vec::<String>::new());
        // The rest differs by what the toy kind, field ownership or a parser's wording makes different.
        assert!(bodies >= 54, "{bodies} bodies are the same");
    });
}

/// What to send: text, an object, or the stored object with changes.
async fn body(server: &Server, body: &Value) -> String {
    let Some(path) = body.get("$get").and_then(Value::as_str) else {
        return match body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
    };
    let mut object = server.get(path).await.json();
    for (path, value) in body["$set"].as_object().into_iter().flatten() {
        *path.split('.').fold(&mut object, |value, part| &mut value[part]) = value.clone();
    }
    for path in strings(&body["$remove"]) {
        object.as_object_mut().map(|object| object.remove(&path));
    }
    object.to_string()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Without what differs from run to run, and without field ownership.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut normal = Map::new();
            for (key, value) in object {
                let fixed = match key.as_str() {
                    "managedFields" => continue,
                    "uid" | "resourceVersion" | "creationTimestamp" | "continue" => json!("*"),
                    _ => self::normal(value),
                };
                normal.insert(key.clone(), fixed);
            }
            Value::Object(normal)
        }
        Value::Array(list) => {
            // Kubernetes repeats some causes; once is enough.
            let mut normal: Vec<Value> = list.iter().map(self::normal).collect();
            if normal.iter().all(|item| item.get("reason").is_some()) {
                normal.dedup();
                let mut seen: Vec<Value> = Vec::new();
                normal.retain(|item| {
                    !seen.contains(item) && {
                        seen.push(item.clone());
                        true
                    }
                });
            }
            Value::Array(normal)
        }
        other => other.clone(),
    }
}
