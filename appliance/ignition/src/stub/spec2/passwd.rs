//! The section `passwd`.

use super::{DuplicatePolicy, Spec2Defaults};
use crate::fields::{FieldError, Fields, SparseObject};

struct PasswdUser {
    place: String,
    name: String,
    password_hash: Option<String>,
    keys: Vec<String>,
    account: SparseObject,
}

pub(super) fn convert(section: &mut Fields, context: Spec2Defaults) -> Result<SparseObject, FieldError> {
    let mut users: Vec<PasswdUser> = Vec::new();
    for fields in section.objects("users")? {
        let mut user = PasswdUser::read(fields)?;
        let Some(index) = users.iter().position(|other| other.name == user.name) else {
            users.push(user);
            continue;
        };
        if context.options.duplicates == DuplicatePolicy::Refused {
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
    let mut groups: Vec<(String, SparseObject)> = Vec::new();
    for fields in section.objects("groups")? {
        let place = fields.at("name");
        let (name, group) = group(fields)?;
        match groups.iter_mut().find(|(other, _)| *other == name) {
            None => groups.push((name, group)),
            Some(other) if context.options.duplicates == DuplicatePolicy::LastWins => *other = (name, group),
            Some(_) => return Err(FieldError::new(&place, "is the name of another group too")),
        }
    }
    Ok(SparseObject::default()
        .list("users", users.into_iter().map(PasswdUser::written).collect::<Vec<_>>())
        .list("groups", groups.into_iter().map(|(_, group)| group).collect::<Vec<_>>()))
}

impl PasswdUser {
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

    fn written(self) -> SparseObject {
        let mut written = SparseObject::default()
            .put("name", self.name)
            .some("passwordHash", self.password_hash)
            .list("sshAuthorizedKeys", self.keys);
        written.0.extend(self.account.0);
        written
    }
}

/// The fields that stand in a user and in its `create`.
fn account(fields: &mut Fields) -> Result<SparseObject, FieldError> {
    let text = |fields: &mut Fields, name: &str| Ok(fields.text(name)?.filter(|text| !text.is_empty()));
    Ok(SparseObject::default()
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

fn group(mut fields: Fields) -> Result<(String, SparseObject), FieldError> {
    let name = fields.needed_text("name")?;
    let written = SparseObject::default()
        .put("name", name.as_str())
        .some("gid", fields.whole("gid")?)
        .some("passwordHash", fields.text("passwordHash")?.filter(|hash| !hash.is_empty()))
        .set("system", fields.flag("system")?);
    fields.end()?;
    Ok((name, written))
}
