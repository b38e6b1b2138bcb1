package project

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// HandleBatch writes changes to the index. Of several changes of one document only the newest is sent; the
// others end as it does, for it has all that they have.
func (p *projection) HandleBatch(ctx context.Context, ds []*pawl.Delivery) []error {
	verdicts := make([]error, len(ds))
	if parked, _ := p.window.why(); parked != "" {
		return fill(verdicts, pawl.Release(time.Second, parked))
	}
	st, err := p.state(ctx)
	if err != nil {
		return fill(verdicts, pawl.Release(time.Second, "the database does not answer: "+err.Error()))
	}
	newest := map[string]int{} // by document: the position of its newest change
	changes := make([]change, len(ds))
	for i, d := range ds {
		if changes[i], verdicts[i] = parseChange(d); verdicts[i] != nil {
			continue
		}
		if at, ok := newest[changes[i].id]; !ok || changes[at].version <= changes[i].version {
			newest[changes[i].id] = i
		}
	}
	order := make([]int, 0, len(newest))
	for i := range changes {
		if at, ok := newest[changes[i].id]; ok && at == i && verdicts[i] == nil {
			order = append(order, i)
		}
	}
	sent, err := p.write(ctx, st, changes, order)
	if err != nil {
		return fill(verdicts, err)
	}
	for i := range changes {
		if at, ok := newest[changes[i].id]; ok && verdicts[i] == nil {
			verdicts[i] = sent[at]
		}
	}
	p.settled(ctx, changes, verdicts)
	return verdicts
}

func fill(verdicts []error, err error) []error {
	for i := range verdicts {
		verdicts[i] = err
	}
	return verdicts
}

// write sends the changes at these positions, and returns their verdicts by position. err is one for all of them.
func (p *projection) write(ctx context.Context, st state, changes []change, order []int) (map[int]error, error) {
	looked := time.Now()
	deleted, err := p.tombstones(ctx, idsOf(changes, order))
	if err != nil {
		return nil, pawl.Release(time.Second, "the database does not answer: "+err.Error())
	}
	targets := st.targets(p.alias)
	items := make([]action, 0, len(order)*len(targets))
	for _, i := range order {
		c := changes[i]
		a := action{id: c.id, version: c.version, remove: c.remove, doc: c.d.Body}
		if last, ok := deleted[c.id]; ok && last.version >= c.version {
			// A newer delete was carried out. The index may have forgotten its version, so it is sent again.
			a.version, a.remove, a.doc = last.version, true, nil
		}
		for _, index := range targets {
			a.index = index
			items = append(items, a)
		}
	}
	// A deletion is on record before it is sent: what comes later and is older than it finds the record.
	if err := p.recordDeletions(ctx, changes, order); err != nil {
		return nil, pawl.Release(time.Second, "the database does not answer: "+err.Error())
	}
	if time.Since(looked) > p.lease/2 {
		// The process may have stood still, and others may have deleted what these changes would bring back.
		return nil, pawl.Release(0, "the tombstones were read too long ago")
	}
	began := time.Now()
	results, whole := p.send(ctx, items, p.limits().bytes)
	p.figures.bulk.Observe(time.Since(began), p.projection)
	if ctx.Err() != nil && whole != nil {
		return nil, whole
	}
	verdicts := p.judge(changes, order, len(targets), results, whole, began)
	p.resurrected(ctx, targets, changes, order, verdicts)
	return verdicts, nil
}

// judge makes verdicts of results. Each change has as many as there are targets; the first is that of the alias.
func (p *projection) judge(changes []change, order []int, targets int, results []result, whole error,
	began time.Time) map[int]error {
	f := p.failure(whole, began)
	refused, sent := 0, 0
	verdicts := make(map[int]error, len(order))
	for n, i := range order {
		var worst result
		for k, r := range results[n*targets : (n+1)*targets] {
			switch {
			case r.err == nil:
			case k == 0:
				worst = r
			case worst.err == nil && pawl.Describe(r.err).Class != pawl.ClassPermanent &&
				pawl.Describe(r.err).Kind != kindConfig:
				worst = r
			default:
				p.log.Warn("a document does not fit into the other index", "projection", p.projection, "document",
					changes[i].id, "error", r.err)
			}
			if k == 0 && !r.unsent {
				p.counted(r)
			}
		}
		if !worst.unsent {
			sent++
		}
		if !worst.unsent && pawl.Describe(worst.err).Kind == kindThrottle {
			refused++
		}
		verdicts[i] = p.verdict(worst, changes[i].d, f)
	}
	if whole == nil {
		p.window.answered(began, refused, sent, p.wait)
	}
	return verdicts
}

// wait is the pause after so many failures in a row.
func (p *projection) wait(level int) time.Duration {
	return p.limits().backoff.Delay(level, p.random())
}

// wholeFailure is what the state of the server means for the items of a batch.
type wholeFailure struct {
	uncounted bool // they were not at fault: they go back
	after     time.Duration
}

func (p *projection) failure(whole error, began time.Time) (f wholeFailure) {
	about := pawl.Describe(whole)
	if whole == nil {
		return f
	}
	p.window.blame(p.redact(whole.Error()))
	switch {
	case about.Kind == kindThrottle:
		f.after = p.window.refused(began, about.After, p.wait)
	case about.Kind == kindServer, about.Kind == kindTimeout:
		var asked time.Duration
		if a, ok := errors.AsType[*answerError](whole); ok {
			asked = a.after
		}
		f.uncounted, f.after = true, p.window.failed(asked, p.wait)
		p.log.Warn("the search index does not answer", "projection", p.projection, "error", p.redact(whole.Error()),
			"next", f.after)
	}
	time.AfterFunc(f.after, p.reopen)
	return f
}

// verdict decides about one failed change. What says nothing about the document goes back uncounted; everything else is
// the policy's.
func (p *projection) verdict(r result, d *pawl.Delivery, f wholeFailure) error {
	if r.err == nil {
		return nil
	}
	about := pawl.Describe(r.err)
	why := classOf(about.Kind) + ": " + p.redact(r.err.Error())
	switch {
	case about.Kind == kindConfig:
		p.window.park(p.redact(r.err.Error()))
		return pawl.Release(time.Second, why)
	case r.unsent, f.uncounted && !r.alone:
		return pawl.Release(f.after, why)
	case about.Class == pawl.ClassTransient && d.Headers[keptHeader] != "":
		return keptAttempts(r.err, d, p.limits().attempts)
	}
	return r.err
}

// keptHeader says how many attempts a replayed change had before, where they are to count on.
const keptHeader = "kept_attempts"

func keptAttempts(err error, d *pawl.Delivery, most int) error {
	var before int
	_, _ = fmt.Sscan(d.Headers[keptHeader], &before)
	if d.Attempt+before >= most {
		return pawl.Permanent(fmt.Errorf("attempt %d of %d: %w", d.Attempt+before, most, err))
	}
	return err
}

// counted adds a result to the metrics.
func (p *projection) counted(r result) {
	switch {
	case r.err != nil:
		class := classOf(pawl.Describe(r.err).Kind)
		p.figures.items.Add(1, p.projection, "error")
		p.figures.errors.Add(1, p.projection, class)
	case r.stale:
		p.figures.items.Add(1, p.projection, "stale")
	default:
		p.figures.items.Add(1, p.projection, "ok")
	}
}

// settled notes the success, and resolves dead letters that were replayed and are written now.
func (p *projection) settled(ctx context.Context, changes []change, verdicts []error) {
	done := false
	for i := range changes {
		if verdicts[i] != nil {
			continue
		}
		done = true
		if changes[i].d.Headers[replayHeader] != "" {
			p.resolve(ctx, changes[i].d.ID)
		}
	}
	if done {
		p.succeeded()
	}
}
