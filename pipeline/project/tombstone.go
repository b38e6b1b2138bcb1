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

// tombstones returns the versions of deletions that are on record, for the documents of these changes.
func (p *projection) tombstones(ctx context.Context, changes []change, order []int) (map[string]int64, error) {
	ids := make([]string, len(order))
	for n, i := range order {
		ids[n] = changes[i].id
	}
	found, err := p.marks.GetMarks(ctx, p.tombstoneScope(), ids...)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]int64, len(found))
	for id, m := range found {
		if v, err := strconv.ParseInt(string(m.Value), 10, 64); err == nil {
			versions[id] = v
		}
	}
	return versions, nil
}

// recordDeletions puts deletions on record. Of two of one document the higher version stays.
func (p *projection) recordDeletions(ctx context.Context, changes []change, order []int) error {
	for {
		var marks []pawl.Mark
		known, err := p.deleted(ctx, changes, order)
		if err != nil {
			return err
		}
		for _, i := range order {
			c := changes[i]
			if !c.remove {
				continue
			}
			m := pawl.Mark{Scope: p.tombstoneScope(), Key: c.id, Value: strconv.AppendInt(nil, c.version, 10),
				For: p.gcDeletes + tombstoneGrace}
			if old, ok := known[c.id]; ok {
				if v, err := strconv.ParseInt(string(old.Value), 10, 64); err == nil && v > c.version {
					continue
				}
				m.If = old.Version
			}
			marks = append(marks, m)
		}
		if len(marks) == 0 {
			return nil
		}
		receipts, err := p.marks.PutMarks(ctx, marks...)
		if err != nil {
			return err
		}
		again := false
		for _, r := range receipts {
			if r.Err != nil {
				return r.Err
			}
			again = again || !r.Put
		}
		if !again {
			return nil
		}
	}
}

// deleted returns the tombstones of the documents that these changes delete.
func (p *projection) deleted(ctx context.Context, changes []change, order []int) (map[string]store.Marked, error) {
	var ids []string
	for _, i := range order {
		if changes[i].remove {
			ids = append(ids, changes[i].id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return p.marks.GetMarks(ctx, p.tombstoneScope(), ids...)
}

// resurrected looks whether a newer deletion came on record while older changes were written: another process may have
// carried it out while this one stood still, and the index may have forgotten it since. Then it is said
// again, whatever has become of the lease.
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
	buried, err := p.tombstones(ctx, changes, written)
	if err != nil {
		p.again(verdicts, written, err)
		return
	}
	var items []action
	var of []int
	for _, i := range written {
		at, ok := buried[changes[i].id]
		if !ok || at <= changes[i].version {
			continue
		}
		for _, index := range targets {
			items = append(items, action{index: index, id: changes[i].id, version: at, remove: true})
		}
		of = append(of, i)
	}
	if len(items) == 0 {
		return
	}
	results, _ := p.search.bulk(ctx, items, p.limits().bytes)
	for _, r := range results {
		if r.err != nil {
			p.again(verdicts, of, r.err)
			return
		}
	}
}

// again gives changes back: the next delivery finds the tombstone.
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
	if looker, ok := store.As[store.Looker](p.store); ok {
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
