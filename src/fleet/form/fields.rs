//! The fields of an object, one by one, every fault of them noted.

use super::fault::{Fault, Faults, Input, Part};
use super::json::Kind;
use super::value::Value;

/// Reads fields of one object and notes what is wrong with them.
///
/// A reader gives none for what is wrong or missing; whoever has all values and no fault has a request.
pub(super) struct Fields<'f, 'd, 'a> {
    pub(super) faults: &'f mut Faults,
    pub(super) owner: Value<'d, 'a>,
}

impl<'d, 'a> Fields<'_, 'd, 'a> {
    /// A field that must be there.
    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        slot: Option<Value<'d, 'a>>,
        read: impl FnOnce(Value<'d, 'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        let Some(value) = slot else {
            self.faults.add_at(Part::Name(name), &Fault::Missing, Input::Value(self.owner));
            return None;
        };
        read(value).map_err(|fault| self.faults.add_at(Part::Name(name), &fault, Input::Value(value))).ok()
    }

    /// A field that has a meaning where it is absent.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        slot: Option<Value<'d, 'a>>,
        absent: T,
        read: impl FnOnce(Value<'d, 'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        if slot.is_none() { Some(absent) } else { self.required(name, slot, read) }
    }

    /// A list of what `item` reads; absent, it is empty.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        slot: Option<Value<'d, 'a>>,
        mut item: impl FnMut(&mut Faults, Value<'d, 'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let is_list = |value: Value<'d, 'a>| match value.kind() {
            Kind::Array => Ok(Some(value)),
            _ => Err(Fault::NotAList),
        };
        let Some(list) = self.optional(name, slot, None, is_list)? else { return Some(Vec::new()) };
        let before = self.faults.count();
        let mut items = Vec::new();
        self.faults.enter(Part::Name(name));
        for (index, value) in list.items().enumerate() {
            self.faults.enter(Part::Index(index));
            let read = item(self.faults, value);
            // one fault refuses all: what follows is read for its faults only
            if self.faults.count() == before {
                items.extend(read);
            }
            self.faults.leave();
        }
        self.faults.leave();
        (self.faults.count() == before).then_some(items)
    }
}

/// An item that is read without looking inside.
pub(super) fn plain<'d, 'a: 'd, T>(
    mut read: impl FnMut(Value<'d, 'a>) -> Result<T, Fault>,
) -> impl FnMut(&mut Faults, Value<'d, 'a>) -> Option<T> {
    move |faults, value| read(value).map_err(|fault| faults.add(&fault, Input::Value(value))).ok()
}
