//! Replays what a real Kubernetes answered. The recording is not part of this repository.

use serde_json::{Map, Value, json};

use crate::toy::{Server, run};

const VECTORS: &str = "vectors/kube-api-golden-1.36.json";

/// Answers of the same code that say it in other words, with the reason. All others are the same but
/// for times, identities and revisions.
const DIFFERENT: [(usize, &str); 4] = [
    (7, "what is no JSON is not repeated in the answer: it may hold a password"),
    (28, PROTOBUF),
    (29, "names with a colon in them are quoted in YAML"),
    (30, PROTOBUF),
];
const PROTOBUF: &str = "answers in protobuf are not served, and not named as acceptable";
/// Of a hundred answers, so many are the same at least.
const SAME_PERCENT_MIN: usize = 95;

/// Requests before which a second passed in the recording: owners are shown by time first.
const TICKS: [usize; 1] = [65];

#[test]
fn answers_are_those_of_kubernetes() {
    let Some(text) = firesteel_fixtures::text(VECTORS) else { return };
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    run(async move {
        let server = Server::new().await;
        let (mut codes, mut bodies) = (Vec::new(), Vec::new());
        for (number, vector) in vectors.iter().enumerate() {
            if TICKS.contains(&number) {
                server.tick();
            }
            let body = body(&server, &vector["body"]).await;
            // The program that made the recording.
            let mut headers: Vec<(&str, &str)> = vec![("user-agent", "difftest/1")];
            for (name, value) in vector["hdr"].as_object().into_iter().flatten() {
                headers.push((name, value.as_str().unwrap()));
            }
            let text = |key: &str| vector[key].as_str().unwrap();
            let reply = server.send(text("m"), text("path"), &headers, &body).await;
            let name = text("name");
            if vector["status"] != json!(reply.code) {
                codes.push(format!("{number} {name}: {} {}", reply.code, reply.text));
                continue;
            }
            let warnings = strings(&vector["warn"]);
            assert_eq!(reply.warnings.len(), warnings.len(), "{number} {name}: {:?}", reply.warnings);
            let (want, have) = match &vector["resp"] {
                Value::String(want) => (json!(normal_text(want)), json!(normal_text(&reply.text))),
                want => (normal(want), normal(&serde_json::from_str(&reply.text).unwrap_or(Value::Null))),
            };
            if want != have {
                bodies.push((number, format!("{number} {name}\n  want {want}\n  have {have}")));
            }
        }
        let same = vectors.len() - codes.len() - bodies.len();
        println!("of {} answers {same} have the same code and body", vectors.len());
        assert_eq!(codes, Vec::<String>::new(), "no status code differs");
        let known = |number: usize| DIFFERENT.iter().any(|(known, _)| *known == number);
        let new: Vec<&str> =
            bodies.iter().filter(|(number, _)| !known(*number)).map(|(_, text)| text.as_str()).collect();
        assert!(new.is_empty(), "{}", new.join("\n"));
        assert!(same * 100 >= vectors.len() * SAME_PERCENT_MIN, "{same}");
        for (number, reason) in DIFFERENT {
            assert!(bodies.iter().any(|(known, _)| *known == number), "{number} is the same by now, although {reason}");
        }
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

/// Without what differs from run to run.
fn normal(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut normal = Map::new();
            for (key, value) in object {
                let fixed = match key.as_str() {
                    "uid" | "resourceVersion" | "continue" if value.is_string() => json!("*"),
                    "cells" => cells(value),
                    _ => self::normal(value),
                };
                normal.insert(key.clone(), fixed);
            }
            Value::Object(normal)
        }
        Value::Array(list) => Value::Array(list.iter().map(normal).collect()),
        Value::String(text) => json!(normal_text(text)),
        other => other.clone(),
    }
}

/// The last column of the kind's tables is an age.
fn cells(cells: &Value) -> Value {
    let mut cells = cells.as_array().cloned().unwrap_or_default();
    if let Some(age) = cells.last_mut() {
        assert!(age == "AGE" || age.as_str().is_some_and(|age| age.ends_with('s')), "{age}");
        *age = json!("AGE");
    }
    Value::Array(cells)
}

/// The same for a text, which may hold a whole object.
fn normal_text(text: &str) -> String {
    let mut normal = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (length, word) = if matches(rest, "0000-00-00T00:00:00Z") {
            (20, "TIME")
        } else if matches(rest, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
            (36, "UID")
        } else if normal.ends_with(", current: ")
            || normal.ends_with("resourceVersion\\\":\\\"")
            || normal.ends_with("resourceVersion\":\"")
        {
            (rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len()), "RV")
        } else {
            (0, "")
        };
        if length == 0 {
            normal.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            normal.push_str(word);
            rest = &rest[length..];
        }
    }
    normal
}

/// `0` stands for a digit, `h` for a hexadecimal one.
fn matches(text: &str, form: &str) -> bool {
    let fits = |(letter, form): (char, char)| match form {
        '0' => letter.is_ascii_digit(),
        'h' => letter.is_ascii_hexdigit(),
        other => letter == other,
    };
    text.len() >= form.len() && text.chars().zip(form.chars()).all(fits)
}
