//! The section `passwd`.

use super::{Context, Duplicates};
use crate::fields::{FieldError, Fields, Written};

struct User {
    place: String,
    name: String,
    password_hash: Option<String>,
    keys: Vec<String>,
    account: Written,
}

pub(super) fn convert(section: &mut Fields, context: Context) -> Result<Written, FieldError> {
    let mut users: Vec<User> = Vec::new();
    for fields in section.objects("users")? {
        let mut user = User::read(fields)?;
        let Some(index) = users.iter().position(|other| other.name == user.name) else {
            users.push(user);
            continue;
        };
        if context.options.duplicates == Duplicates::Refused {
            let reason = format!("is the name of {} too", users[index].place);
            return Err(FieldError::new(&format!("{}.name", user.place), reason));
        }
        for key in std::mem::take(&mut users[index].keys) {
            if !user.keys.contains(&key) {
                user.keys.push(key);
            }
        }
        users[index] = user;
    }
    let mut groups: Vec<(String, Written)> = Vec::new();
    for fields in section.objects("groups")? {
        let place = fields.at("name");
        let (name, group) = group(fields)?;
        match groups.iter_mut().find(|(other, _)| *other == name) {
            None => groups.push((name, group)),
            Some(other) if context.options.duplicates == Duplicates::LastWins => *other = (name, group),
            Some(_) => return Err(FieldError::new(&place, "is the name of another group too")),
        }
    }
    Ok(Written::default()
        .list("users", users.into_iter().map(User::written).collect::<Vec<_>>())
        .list("groups", groups.into_iter().map(|(_, group)| group).collect::<Vec<_>>()))
}

impl User {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let place = fields.place().to_owned();
        let name = fields.needed_text("name")?;
        let password_hash = fields.text("passwordHash")?;
        let keys = fields.texts("sshAuthorizedKeys")?;
        let mut create = fields.object("create")?;
        let mut account = account(&mut fields)?;
        let created = self::account(&mut create)?;
        if !created.0.is_empty() {
            if let Some(field) = account.0.keys().next() {
                return Err(create.error(field, "cannot stand beside the user's own field of that name"));
            }
            account = created;
        }
        create.end()?;
        fields.end()?;
        Ok(Self { place, name, password_hash, keys, account })
    }

    fn written(self) -> Written {
        let mut written = Written::default()
            .put("name", self.name)
            .some("passwordHash", self.password_hash)
            .list("sshAuthorizedKeys", self.keys);
        written.0.extend(self.account.0);
        written
    }
}

/// The fields that stand in a user and in its `create`.
fn account(fields: &mut Fields) -> Result<Written, FieldError> {
    let text = |fields: &mut Fields, name: &str| Ok(fields.text(name)?.filter(|text| !text.is_empty()));
    Ok(Written::default()
        .some("uid", fields.whole("uid")?)
        .some("gecos", text(fields, "gecos")?)
        .some("homeDir", text(fields, "homeDir")?)
        .set("noCreateHome", fields.flag("noCreateHome")?)
        .some("primaryGroup", text(fields, "primaryGroup")?)
        .list("groups", fields.texts("groups")?)
        .set("noUserGroup", fields.flag("noUserGroup")?)
        .set("noLogInit", fields.flag("noLogInit")?)
        .some("shell", text(fields, "shell")?)
        .set("system", fields.flag("system")?))
}

fn group(mut fields: Fields) -> Result<(String, Written), FieldError> {
    let name = fields.needed_text("name")?;
    let written = Written::default()
        .put("name", name.as_str())
        .some("gid", fields.whole("gid")?)
        .some("passwordHash", fields.text("passwordHash")?.filter(|hash| !hash.is_empty()))
        .set("system", fields.flag("system")?);
    fields.end()?;
    Ok((name, written))
}
