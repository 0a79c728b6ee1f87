#![allow(clippy::unwrap_used, reason = "tests")]
mod serving;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Additions, Defaults, KernelType, PoolRenderError, RenderableConfig, Rendered, merge, render, serve};
use crate::{CONFIG_BYTES_MAX, SpecVersion, fixtures::assert_valid};

fn machine(name: &str, more: Value) -> RenderableConfig {
    let mut config = json!({"ignition": {"version": "3.4.0"}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    RenderableConfig {
        name: name.to_owned(),
        role: "worker".to_owned(),
        config: Some(config),
        ..RenderableConfig::default()
    }
}

fn files(files: Value) -> Value {
    json!({"storage": {"files": files}})
}

fn file(path: &str, source: &str) -> Value {
    json!({"path": path, "contents": {"source": source}})
}

fn rendered(configs: &[RenderableConfig]) -> Rendered {
    let rendered = render("worker", configs, &Defaults::default()).unwrap();
    assert_valid(&rendered.config);
    rendered
}

fn refused(configs: &[RenderableConfig]) -> PoolRenderError {
    render("worker", configs, &Defaults::default()).unwrap_err()
}

#[test]
fn the_last_name_wins_and_a_pools_own_after_all_workers() {
    let own = RenderableConfig { role: "web".to_owned(), ..machine("00-own", files(json!([file("/a", "data:,own")]))) };
    let configs = [
        own,
        machine("99-late", files(json!([file("/a", "data:,late"), file("/b", "data:,late")]))),
        machine("10-early", files(json!([file("/b", "data:,early"), file("/c", "data:,early")]))),
    ];
    let one = rendered(&configs);
    let wanted = |path, source| json!({"path": path, "contents": {"source": source}, "overwrite": true});
    assert_eq!(
        one.config["storage"]["files"],
        json!([wanted("/b", "data:,late"), wanted("/c", "data:,early"), wanted("/a", "data:,own"),])
    );
    assert_eq!(one.sources, ["10-early", "99-late", "00-own"]);
    let mut reversed = configs;
    reversed.reverse();
    assert_eq!(rendered(&reversed), one, "the order in which they are given says nothing");
    assert!(one.name.starts_with("rendered-worker-") && one.name.len() == "rendered-worker-".len() + 32);
    let mut other = reversed;
    other[0].kernel_arguments.push("a".to_owned());
    assert_ne!(rendered(&other).name, one.name);
}

/// The cases are those of coreos/ignition's `config/merge`.
#[test]
fn configs_are_merged_as_ignition_does() {
    let parent = json!({
        "ignition": {
            "config": {"merge": [{"source": "https://a.example/1", "httpHeaders": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}]},
            "timeouts": {"httpTotal": 1, "httpResponseHeaders": 2},
        },
        "storage": {
            "files": [{"path": "/f", "append": [{"source": "data:,1"}]}, {"path": "/becomes-link", "mode": 1}],
            "directories": [{"path": "/d", "mode": 1}],
            "filesystems": [{"device": "/dev/a", "format": "xfs", "options": ["a"], "mountOptions": ["m"]}],
            "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "sizeMiB": 1}, {"label": "x", "sizeMiB": 1}]}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": false, "contents": "1", "dropins": [{"name": "1.conf", "contents": "1"}]}]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["one", "two"], "uid": 5}]},
        "kernelArguments": {"shouldExist": ["quiet", "stays"], "shouldNotExist": ["gone"]},
    });
    let child = json!({
        "ignition": {
            "config": {"merge": [{"source": "https://a.example/1", "httpHeaders": [{"name": "X", "value": null}]}, {"source": "https://a.example/2"}]},
            "timeouts": {"httpTotal": 9},
        },
        "storage": {
            "files": [{"path": "/f", "mode": 2, "append": [{"source": "data:,1"}]}, {"path": "/d", "mode": 2}],
            "links": [{"path": "/becomes-link", "target": "x"}],
            "filesystems": [{"device": "/dev/a", "label": "l", "options": ["a"], "mountOptions": ["m"]}],
            "disks": [{"device": "/dev/a", "partitions": [{"label": "x", "sizeMiB": 2}, {"number": 1, "label": "y"}]}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": true, "dropins": [{"name": "1.conf", "contents": "2"}, {"name": "2.conf"}]}]},
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["two", "three"]}, {"name": "b"}]},
        "kernelArguments": {"shouldExist": ["gone"], "shouldNotExist": ["quiet"]},
    });
    assert_eq!(
        merge(parent, child),
        json!({
            "ignition": {
                "config": {"merge": [{"source": "https://a.example/1", "httpHeaders": [{"name": "Y", "value": "1"}]}, {"source": "https://a.example/2"}]},
                "timeouts": {"httpTotal": 9, "httpResponseHeaders": 2},
            },
            "storage": {
                "files": [{"path": "/f", "mode": 2, "append": [{"source": "data:,1"}, {"source": "data:,1"}]}, {"path": "/d", "mode": 2}],
                "directories": [],
                "links": [{"path": "/becomes-link", "target": "x"}],
                "filesystems": [{"device": "/dev/a", "format": "xfs", "label": "l", "options": ["a", "a"], "mountOptions": ["m", "m"]}],
                "disks": [{"device": "/dev/a", "partitions": [{"number": 1, "sizeMiB": 1, "label": "y"}, {"label": "x", "sizeMiB": 2}]}],
            },
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "1", "dropins": [{"name": "1.conf", "contents": "2"}, {"name": "2.conf"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["one", "two", "three"], "uid": 5}, {"name": "b"}]},
            "kernelArguments": {"shouldExist": ["stays", "gone"], "shouldNotExist": ["quiet"]},
        })
    );
}

#[test]
fn new_contents_come_without_the_old_ones_packing() {
    let packed = json!({"path": "/a", "mode": 420, "contents": {"source": "data:,1", "compression": "gzip", "verification": {"hash": format!("sha512-{}", "0".repeat(128))}}});
    let new = rendered(&[machine("1", files(json!([packed]))), machine("2", files(json!([file("/a", "data:,2")])))]);
    assert_eq!(new.config["storage"]["files"][0]["contents"], json!({"source": "data:,2"}));
    let mode = json!({"path": "/a", "mode": 384});
    let kept = rendered(&[machine("1", files(json!([packed]))), machine("2", files(json!([mode])))]);
    assert_eq!(
        (&kept.config["storage"]["files"][0]["contents"], &kept.config["storage"]["files"][0]["mode"]),
        (&packed["contents"], &json!(384))
    );
}

#[test]
fn what_is_beside_the_config_is_combined() {
    let with = |name: &str, argument: &str, image: &str, generated| RenderableConfig {
        kernel_arguments: vec!["console=tty0".to_owned(), argument.to_owned()],
        extensions: vec!["usbguard".to_owned()],
        os_image_url: image.to_owned(),
        generated,
        config: None,
        ..machine(name, json!({}))
    };
    let mut realtime = with("3", "c", "", false);
    (realtime.kernel_type, realtime.fips) = ("realtime".to_owned(), true);
    let defaults = Defaults { os_image_url: "default".to_owned(), extensions_image: "extensions".to_owned() };
    let all = [with("1", "a", "own", false), with("2", "b", "template", true), realtime];
    let one = render("worker", &all, &defaults).unwrap();
    assert_eq!(
        one.kernel_arguments,
        ["console=tty0", "a", "console=tty0", "b", "console=tty0", "c"],
        "kept as they stand"
    );
    assert_eq!(one.extensions, ["usbguard"; 3]);
    assert_eq!((one.os_image_url.as_str(), one.extensions_image.as_str()), ("own", "extensions"));
    assert_eq!((one.fips, one.kernel_type), (true, KernelType::Realtime));
    assert_eq!(one.config, json!({"ignition": {"version": "3.5.0"}}));
    let plain = render("worker", &all[1..2], &defaults).unwrap();
    assert_eq!((plain.os_image_url.as_str(), plain.kernel_type), ("default", KernelType::Default));
}

#[test]
fn contradictions_name_both() {
    let kernel = |name: &str, kind: &str| RenderableConfig { kernel_type: kind.to_owned(), ..machine(name, json!({})) };
    let devel = RenderableConfig { extensions: vec!["kernel-devel".to_owned()], ..machine("devel", json!({})) };
    let adds = RenderableConfig { kernel_arguments: vec!["nosmt".to_owned()], ..machine("adds", json!({})) };
    let removes = machine("removes", json!({"kernelArguments": {"shouldNotExist": ["nosmt"]}}));
    let link = machine("link", json!({"storage": {"links": [{"path": "/l", "target": "/x"}]}}));
    let below = machine("below", files(json!([file("/l/a", "data:,a")])));
    let between = machine("between", files(json!([file("/other", "data:,a")])));
    let cases: [(&[RenderableConfig], &str, &str, &str); 4] = [
        (&[kernel("one", "realtime"), kernel("two", "64k-pages")], "one", "two", "kernelType: realtime and 64k-pages"),
        (&[kernel("rt", "realtime"), devel.clone()], "rt", "devel", "kernel-devel"),
        (&[adds, removes], "adds", "removes", "shouldNotExist"),
        (&[link, between, below], "below", "link", "storage.files[0]"),
    ];
    for (configs, first, second, fault) in cases {
        let error = refused(configs);
        let told = error.to_string();
        assert!(matches!(error, PoolRenderError::Contradiction { .. }), "{told}");
        assert!(told.contains(&format!("{first} and {second} ")) && told.contains(fault), "{told}");
    }
    assert_eq!(rendered(&[kernel("one", "realtime"), kernel("two", "realtime")]).kernel_type, KernelType::Realtime);
    let both = RenderableConfig { kernel_type: "realtime".to_owned(), ..devel };
    assert!(matches!(refused(&[both]), PoolRenderError::Invalid { name, .. } if name == "devel"));
}

#[test]
fn an_invalid_one_is_named_and_a_pool_without_any() {
    let cases = [
        machine("bad", json!({"storage": {"files": [{"path": "a"}]}})),
        machine("bad", json!({"ignition": {"version": "3.9.0"}})),
        machine("bad", json!({"ignition": {"version": "2.2.0"}, "x": 1})),
        machine("bad", json!({"storage": {"files": [{"path": "/a", "mode": 0o1000}]}})),
        // Valid in its own version, and not in that which is served.
        machine("bad", json!({"ignition": {"version": "3.2.0"}, "storage": {"links": [{"path": "/l"}]}})),
        RenderableConfig { config: Some(json!("text")), ..machine("bad", json!({})) },
        RenderableConfig { kernel_type: "tiny".to_owned(), ..machine("bad", json!({})) },
    ];
    for config in cases {
        let error = refused(&[machine("a good one", json!({})), config]);
        assert!(matches!(&error, PoolRenderError::Invalid { name, .. } if name == "bad"), "{error}");
    }
    let plain = files(json!([{"path": "/a", "mode": 0o777}]));
    assert_eq!(rendered(&[machine("m", plain.clone())]).config["storage"], plain["storage"]);
    assert_eq!(refused(&[]), PoolRenderError::Empty);
    let big = |name: &str| {
        machine(name, files(json!([file(&format!("/{name}"), &format!("data:,{}", "x".repeat(1_500_000)))])))
    };
    assert!(matches!(refused(&[big("a"), big("b")]), PoolRenderError::Large(_)));
}

#[test]
fn a_pool_of_the_greatest_size_is_rendered() {
    let with = |bytes: usize| [machine("m", files(json!([file("/a", &format!("data:,{}", "x".repeat(bytes)))])))];
    let most = CONFIG_BYTES_MAX - rendered(&with(0)).config.to_string().len();
    assert_eq!(rendered(&with(most)).config.to_string().len(), CONFIG_BYTES_MAX);
    assert_eq!(refused(&with(most + 1)), PoolRenderError::Large(CONFIG_BYTES_MAX + 1));
}

#[test]
fn a_file_overwrites_where_it_has_a_source_and_its_owner_says_nothing_else() {
    let kept = json!({"path": "/kept", "overwrite": false, "contents": {"source": "data:,x"}});
    let bare = json!({"path": "/bare", "contents": {"compression": ""}});
    let mut made = file("/made", "data:,x");
    let one = rendered(&[machine("m", files(json!([kept, bare, made])))]);
    made["overwrite"] = json!(true);
    assert_eq!(one.config["storage"]["files"], json!([kept, bare, made]));
}

#[test]
fn debug_output_has_the_names_and_no_config() {
    let config = machine("m", files(json!([file("/secret", "data:,x")])));
    let one = rendered(std::slice::from_ref(&config));
    assert_eq!(format!("{config:?}"), r#"RenderableConfig { name: "m", role: "worker", .. }"#);
    assert_eq!(format!("{one:?}"), format!(r#"Rendered {{ name: "{}", sources: ["m"], .. }}"#, one.name));
}

/// The field was ignored; a newer version of the whole must not bring it to life.
#[test]
fn what_is_too_new_for_its_config_stays_without_effect_and_is_told() {
    let old = machine("old", json!({"ignition": {"version": "3.2.0"}, "kernelArguments": {"shouldExist": ["quiet"]}}));
    let one = rendered(&[old]);
    assert_eq!(one.config, json!({"ignition": {"version": "3.5.0"}}));
    assert_eq!(
        one.notes,
        ["machine config old: kernelArguments: is new in 3.3.0 and ignored, for the config says 3.2.0"]
    );
}

#[test]
fn empty_ignition_is_none_and_spec_2_is_read() {
    let empty = RenderableConfig { config: Some(json!({})), ..machine("empty", json!({})) };
    let old = machine(
        "old",
        json!({"ignition": {"version": "2.2.0"}, "storage": {"files": [
            {"filesystem": "root", "path": "/a", "mode": 420, "contents": {"source": "data:,1"}},
            {"filesystem": "root", "path": "/a", "mode": 420, "contents": {"source": "data:,2"}},
        ]}}),
    );
    let one = rendered(&[empty, old, machine("z", files(json!([{"path": "/a", "mode": 384}])))]);
    assert_eq!(
        one.config["storage"]["files"],
        json!([{"path": "/a", "mode": 384, "overwrite": true, "contents": {"source": "data:,2"}}])
    );
}

fn arb_machine(index: usize) -> impl Strategy<Value = RenderableConfig> {
    let file = ("[ab]", "[xy]", prop::option::of(0_u32..0o777)).prop_map(|(name, source, mode)| {
        json!({"path": format!("/{name}"), "mode": mode, "contents": {"source": format!("data:,{source}")}})
    });
    let link = "[ac]".prop_map(|name| json!({"path": format!("/{name}"), "target": "/t"}));
    let user = ("[ab]", "[kl]").prop_map(|(name, key)| json!({"name": name, "sshAuthorizedKeys": [key]}));
    let unit = ("[ab]", any::<bool>())
        .prop_map(|(name, enabled)| json!({"name": format!("{name}.service"), "enabled": enabled}));
    let kind = prop_oneof![
        file.prop_map(|one| files(json!([one]))),
        link.prop_map(|one| json!({"storage": {"links": [one]}})),
        user.prop_map(|one| json!({"passwd": {"users": [one]}})),
        unit.prop_map(|one| json!({"systemd": {"units": [one]}})),
    ];
    (kind, "(worker|web)").prop_map(move |(more, role)| RenderableConfig { role, ..machine(&format!("{index}"), more) })
}

proptest! {
    /// Rendering depends on names alone, gives what is valid, and a config merged with itself is itself.
    #[test]
    fn rendering_is_the_same_in_any_order(
        configs in (0_usize..5).prop_flat_map(|count| (0..=count).map(arb_machine).collect::<Vec<_>>()), turn in 0_usize..5,
    ) {
        let one = render("web", &configs, &Defaults::default());
        let mut turned = configs.clone();
        turned.rotate_left(turn % configs.len());
        prop_assert_eq!(&render("web", &turned, &Defaults::default()), &one);
        if let Ok(one) = one {
            assert_valid(&one.config);
            prop_assert_eq!(merge(one.config.clone(), one.config.clone()), one.config.clone());
            for version in SpecVersion::ALL {
                prop_assert!(serve(&one, &Additions::default(), version).is_ok());
            }
        }
    }
}
