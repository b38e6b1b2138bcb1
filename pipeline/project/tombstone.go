package project

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// A tombstone is a mark of a deleted document with the version of its deletion. The index forgets that after
// index.gc_deletes; an older change that comes later would bring the document back.

// tombstoneGrace is how much longer than gc_deletes a tombstone stays: for so long all daemons may be down without one
// expiring that an older change still needs, for only they prolong it.
const tombstoneGrace = 24 * time.Hour

// tombstoneScope is the scope of the tombstones.
func (p *projection) tombstoneScope() string { return "outbox tombs/" + p.projection }

type tombstone struct {
	version int64 // of the deletion
	mark    int64 // the version of the mark
}

// tombstones returns those of documents, by id.
func (p *projection) tombstones(ctx context.Context, ids []string) (map[string]tombstone, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := p.marks.GetMarks(ctx, p.tombstoneScope(), ids...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]tombstone, len(found))
	for id, m := range found {
		version, _ := strconv.ParseInt(string(m.Value), 10, 64) // recordDeletions wrote a number
		all[id] = tombstone{version, m.Version}
	}
	return all, nil
}

// idsOf returns the documents of the changes at these positions.
func idsOf(changes []change, order []int) []string {
	ids := make([]string, len(order))
	for n, i := range order {
		ids[n] = changes[i].id
	}
	return ids
}

// recordDeletions puts deletions on record. Of two of one document the higher version stays.
func (p *projection) recordDeletions(ctx context.Context, changes []change, order []int) error {
	order = slices.DeleteFunc(slices.Clone(order), func(i int) bool { return !changes[i].remove })
	for again := true; again; {
		known, err := p.tombstones(ctx, idsOf(changes, order))
		if err != nil {
			return err
		}
		var marks []pawl.Mark
		for _, i := range order {
			c := changes[i]
			old, ok := known[c.id]
			if ok && old.version > c.version {
				continue
			}
			marks = append(marks, pawl.Mark{Scope: p.tombstoneScope(), Key: c.id,
				Value: strconv.AppendInt(nil, c.version, 10), For: p.gcDeletes + tombstoneGrace, If: old.mark})
		}
		if len(marks) == 0 {
			return nil
		}
		receipts, err := p.marks.PutMarks(ctx, marks...)
		if err != nil {
			return err
		}
		again = false
		for _, r := range receipts {
			if r.Err != nil {
				return r.Err
			}
			again = again || !r.Put
		}
	}
	return nil
}

// resurrected repeats deletions that came on record while older changes were written: another process may have carried
// them out while this one stood still, and the index may have forgotten them since. It does so whatever has become of
// the lease.
func (p *projection) resurrected(ctx context.Context, targets []string, changes []change, order []int,
	verdicts map[int]error) {
	var written []int
	for _, i := range order {
		if verdicts[i] == nil && !changes[i].remove {
			written = append(written, i)
		}
	}
	if len(written) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchTimeout)
	defer cancel()
	deleted, err := p.tombstones(ctx, idsOf(changes, written))
	if err != nil {
		p.again(verdicts, written, err)
		return
	}
	var items []action
	var of []int
	for _, i := range written {
		last, ok := deleted[changes[i].id]
		if !ok || last.version <= changes[i].version {
			continue
		}
		for _, index := range targets {
			items = append(items, action{index: index, id: changes[i].id, version: last.version, remove: true})
		}
		of = append(of, i)
	}
	if len(items) == 0 {
		return
	}
	results, _ := p.send(ctx, items, p.limits().bytes)
	for _, r := range results {
		if r.err != nil {
			p.again(verdicts, of, r.err)
			return
		}
	}
}

// again gives changes back: their next delivery finds the tombstone.
func (p *projection) again(verdicts map[int]error, of []int, err error) {
	for _, i := range of {
		verdicts[i] = pawl.Release(time.Second, "deletion to be repeated: "+p.redact(err.Error()))
	}
}

// prolongEvery is how often the tombstones of what is unresolved are prolonged.
const prolongEvery = time.Hour

// prolongTombstones prolongs the tombstones of documents that have a dead letter, or a change that has waited for
// long: when such a change comes at last, it has to find them.
func (p *projection) prolongTombstones(ctx context.Context) error {
	now, err := p.entries.Clock(ctx)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	if letters, ok := store.As[store.DeadLetters](p.store); ok {
		for r, err := range letters.Dead(ctx, store.DeadFilter{Topic: p.topic, Brief: true}) {
			if err != nil {
				return err
			}
			ids[string(r.Key)] = true
		}
	}
	if looker, ok := store.As[store.Inspector](p.store); ok {
		for r, err := range looker.List(ctx, store.Filter{Topic: p.topic, OlderThan: p.gcDeletes / 2}) {
			if err != nil {
				return err
			}
			if now.Sub(r.EnqueuedAt) > p.gcDeletes/2 {
				ids[string(r.Key)] = true
			}
		}
	}
	return p.prolong(ctx, slices.Collect(maps.Keys(ids)))
}

func (p *projection) prolong(ctx context.Context, ids []string) error {
	const most = 1000
	for part := range slices.Chunk(ids, most) {
		found, err := p.marks.GetMarks(ctx, p.tombstoneScope(), part...)
		if err != nil {
			return err
		}
		var marks []pawl.Mark
		for id, m := range found {
			marks = append(marks, pawl.Mark{Scope: p.tombstoneScope(), Key: id, Value: m.Value,
				For: p.gcDeletes + tombstoneGrace, If: m.Version})
		}
		if len(marks) == 0 {
			continue
		}
		if _, err := p.marks.PutMarks(ctx, marks...); err != nil { // one that changed meanwhile is younger
			return err
		}
	}
	return nil
}
