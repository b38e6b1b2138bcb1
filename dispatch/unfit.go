package dispatch

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// failUnfit settles a delivery as failed whose ack the store refused because of what it
// emits. Otherwise the refusal would go unreported, and the message would wait for the
// end of its lease only to be refused again. Whatever [store.Fit] detects never gets
// here. It changes these settlements in the batch, and returns the refusals that are
// left.
func (d *settler) failUnfit(batch settlements, refused []store.Refusal) []store.Refusal {
	var again settlements
	var at []int
	left := slices.DeleteFunc(slices.Clone(refused), func(r store.Refusal) bool {
		st, o := &batch.items[r.Index], batch.outs[r.Index]
		i := o.run.indexOf(st.Token)
		if !isUnfit(st, r.Err) || i < 0 {
			return false
		}
		failed := store.Settlement{Token: st.Token, ID: st.ID}
		err := pawl.Permanent(pawl.OfKind(pawl.KindEmit, fmt.Errorf("emit: %w", r.Err)))
		d.runner.failed(&failed, &o.run.ds[i], err, o.ran)
		if failed.Verdict == store.Ack { // ignored: it is done, without what it emitted and marked
			failed.Emit, failed.Marks = nil, nil
		}
		o.done = nil
		again.add(&failed, o)
		at = append(at, r.Index)
		return true
	})
	if len(at) == 0 {
		return refused
	}
	more, err := d.settleUntilTaken(store.NewBatch(again.items...), again.outs)
	for i, to := range at {
		batch.items[to], batch.outs[to] = again.items[i], again.outs[i]
		if err != nil {
			left = append(left, store.Refusal{Index: to, Err: err})
		}
	}
	for _, r := range more {
		left = append(left, store.Refusal{Index: at[r.Index], Err: r.Err})
	}
	d.endRuns(again)
	return left
}

// isUnfit reports whether a settlement was refused because of what it emits, and will
// be whenever it is repeated.
func isUnfit(st *store.Settlement, err error) bool {
	return st.Verdict == store.Ack && len(st.Emit)+len(st.Marks) > 0 && store.ForGood(err)
}

// endRuns ends runs here that a failure has ended in the store: the ack that it
// replaces did not.
func (d *settler) endRuns(batch settlements) {
	d.mu.Lock()
	var endings []ending
	for i := range batch.outs {
		if !batch.outs[i].run.goesOn(&batch.items[i]) {
			endings = append(endings, d.watcher.lose(batch.outs[i].run, d.engine.now())...)
		}
	}
	d.mu.Unlock()
	endAll(endings)
}
