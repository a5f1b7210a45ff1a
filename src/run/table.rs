//! A vector whose indexes are handed out by [`Table::push`] and so are always in range.

use std::ops::{Index, IndexMut};

/// Rows that are addressed by the number `push` returned for them.
#[derive(Clone, Debug)]
pub(super) struct Table<T>(Vec<T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// A table with `len` copies of `value`, addressed as another table of that length is.
    pub(super) fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        Self(vec![value; len])
    }

    /// Adds a row and returns its number.
    pub(super) fn push(&mut self, row: T) -> usize {
        self.0.push(row);
        self.0.len() - 1
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The rows in the order of their numbers.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The rows, to be changed, in the order of their numbers.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }
}

impl<T> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    #[expect(
        clippy::indexing_slicing,
        reason = "row numbers come from `push` or `len` of a table of this length"
    )]
    fn index(&self, row: usize) -> &T {
        &self.0[row]
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[expect(
        clippy::indexing_slicing,
        reason = "row numbers come from `push` or `len` of a table of this length"
    )]
    fn index_mut(&mut self, row: usize) -> &mut T {
        &mut self.0[row]
    }
}

/// Disjoint sets over the rows of a table.
#[derive(Debug)]
pub(super) struct Sets(Table<usize>);

impl Sets {
    /// Every row alone in its set.
    pub(super) fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    /// The least row of the set that holds `row`.
    pub(super) fn find(&mut self, mut row: usize) -> usize {
        while self.0[row] != row {
            let above = self.0[self.0[row]];
            self.0[row] = above;
            row = above;
        }
        row
    }

    /// Joins the sets of two rows.
    pub(super) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}
