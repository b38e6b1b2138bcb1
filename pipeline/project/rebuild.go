package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// A rebuild is carried out by one of the daemons at a time: the one that has the mark, which expires where it dies. The
// state says how far it came. All daemons write live changes to the target, too, from the moment that the
// state names it.

const (
	rebuildScope = "project rebuild"
	rebuildLease = 15 * time.Second
	rebuildTries = 30 * time.Second // the longest wait of a page that failed
)

const rebuildFailed = "failed"

// begin starts a rebuild, or finds one under way.
func (p *projection) begin(ctx context.Context) (state, error) {
	st, err := p.state(ctx)
	if err != nil || st.State == building || st.State == verifying {
		return st, err
	}
	if st.Index == "" {
		return st, errors.New("there is no index yet: the daemon makes the first one")
	}
	total, err := p.source.count(ctx, p.rows)
	if err != nil {
		return st, err
	}
	names, err := p.search.named(ctx, p.alias)
	if err != nil {
		return st, err
	}
	found, err := p.search.behind(ctx, p.alias)
	if err != nil {
		return st, err
	}
	if slices.Equal(found, []string{st.Previous}) { // a rollback got no answer: what is searched is not removed
		st.Index, st.Previous = st.Previous, st.Index
	}
	old, err := p.search.leftovers(ctx, &st, names, found)
	if err != nil {
		return st, err
	}
	st.Previous, st.Target, st.State = "", indexAfter(p.alias, slices.Max(append(names, st.Index))), building
	st.Done, st.Total, st.Verdict, st.Started, st.After, st.Error = 0, total, "", new(time.Now().UTC()), nil, ""
	if err := p.search.create(ctx, st.Target, p.targetBody(st.Target)); err != nil {
		return st, err
	}
	if err := p.search.point(ctx, writeAlias(st.Index), "", st.Index); err != nil {
		return st, err
	}
	if err := p.put(ctx, &st); err != nil {
		return st, err
	}
	for _, index := range old {
		if err := p.search.remove(ctx, index); err != nil {
			return st, err
		}
	}
	return st, nil
}

// leftovers are the indices that a rebuild removes: those of the last one, and others that have an alias for changes,
// but that no state names any more, because a process died, or got no answer, before it had removed them. What is
// searched is none.
func (s *search) leftovers(ctx context.Context, st *state, names, searched []string) (all []string, err error) {
	for _, index := range []string{st.Previous, st.Target} {
		if index != "" && !slices.Contains(searched, index) {
			all = append(all, index)
		}
	}
	for _, index := range names {
		if index == st.Index || slices.Contains(all, index) || slices.Contains(searched, index) {
			continue
		}
		found, err := s.behind(ctx, writeAlias(index))
		if err != nil {
			return nil, err
		}
		if slices.Equal(found, []string{index}) {
			all = append(all, index)
		}
	}
	return all, nil
}

// targetBody is the settings and mappings of an index with the alias that changes beside the searched index go by.
func (p *projection) targetBody(index string) []byte {
	var body map[string]any
	if json.Unmarshal(p.mapping, &body) != nil {
		body = map[string]any{}
	}
	body["aliases"] = map[string]any{writeAlias(index): map[string]any{}}
	text, _ := json.Marshal(body) // it came from JSON
	return text
}

// rebuild goes on with a rebuild that is under way, if no other daemon does.
func (p *projection) rebuild(ctx context.Context) error {
	p.mu.Lock()
	known := p.known.State
	p.mu.Unlock()
	if known != building && known != verifying || p.source == nil || p.window.hold().on() {
		return nil
	}
	lock, err := p.lock(ctx, 0)
	if err != nil || lock == 0 {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		// it expires, too
		_, _ = p.marks.PutMarks(ctx, pawl.Mark{Scope: rebuildScope, Key: p.projection, If: pawl.AnyVersion,
			Remove: true})
	}()
	for !p.window.hold().on() {
		if lock, err = p.lock(ctx, lock); err != nil || lock == 0 {
			return err
		}
		st, err := p.state(ctx)
		if err != nil {
			return err
		}
		switch st.State {
		case building:
			err = p.buildPage(ctx, &st)
		case verifying:
			err = p.finish(ctx, &st)
		default:
			return nil
		}
		if errors.Is(err, errRow) {
			st.State, st.Error = rebuildFailed, err.Error()
			err = p.put(ctx, &st)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// lock takes the mark or renews it; 0 if another process has it.
func (p *projection) lock(ctx context.Context, version int64) (int64, error) {
	r, err := pipeline.PutMark(ctx, p.marks, pawl.Mark{Scope: rebuildScope, Key: p.projection, Value: []byte(p.owner),
		For: rebuildLease, If: version})
	return r.Version, err
}

// buildPage writes the next page of the table to the target.
func (p *projection) buildPage(ctx context.Context, st *state) error {
	l := p.limits()
	rows, err := p.source.page(ctx, p.rows, st.After, l.batch)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		st.State = verifying
		return p.put(ctx, st)
	}
	items := make([]action, 0, len(rows))
	for _, r := range rows {
		a := action{index: writeAlias(st.Target), id: r.id, version: r.version, again: true, doc: r.doc}
		if err := unfit(a.id, a.doc); err != nil {
			p.leaveOut(&a, err)
		} else {
			items = append(items, a)
		}
	}
	if err := p.insist(ctx, items, l); err != nil {
		return err
	}
	if err := p.repeatDeletions(ctx, st.Target, rows, l); err != nil {
		return err
	}
	clear(p.failed)
	st.Done += int64(len(rows))
	st.After = &rows[len(rows)-1].key
	return p.put(ctx, st)
}

// unwritten is an item that failed by itself.
type unwritten struct {
	index string
	suspect
}

// failures counts those of items.
type failures map[unwritten]int

// givenUp counts for an item that is not tried again.
const givenUp = math.MaxInt

func (f failures) of(a *action) int { return f[unwritten{a.index, suspect{a.id, a.version}}] }

func (f failures) set(a *action, n int) int {
	f[unwritten{a.index, suspect{a.id, a.version}}] = n
	return n
}

// leaveOut gives an item up, also where its page is tried again because of others.
func (p *projection) leaveOut(a *action, err error) {
	if p.failed.of(a) == givenUp {
		return
	}
	p.failed.set(a, givenUp)
	p.log.Warn("a document does not fit into the target of the rebuild", "projection", p.projection,
		"document", a.id, "error", p.redact(err.Error()))
}

// insist writes items until all are written or cannot be, with growing waits. Documents that do not fit are
// missing from the target then: the comparison says so.
func (p *projection) insist(ctx context.Context, items []action, l limits) error {
	items = slices.DeleteFunc(slices.Clone(items), func(a action) bool { return p.failed.of(&a) == givenUp })
	for try := 1; len(items) > 0; try++ {
		began, refused, sent := time.Now(), 0, 0
		slices.SortStableFunc(items, func(a, b action) int {
			return cmp.Compare(p.failed.of(&a), p.failed.of(&b))
		})
		results, whole := p.send(ctx, items, l.bytes)
		var again []action
		var last error
		alive := try > 3 && p.probe(ctx, items[0].index) == nil
		for i, r := range results {
			a, about := &items[i], pawl.Describe(r.err)
			if !r.unsent {
				sent++
			}
			if about.Kind == kindThrottle {
				refused++
			}
			byItself := r.err != nil && !r.unsent && about.Class == pawl.ClassTransient && (whole == nil || r.alone)
			switch {
			case r.err == nil:
			case about.Class == pawl.ClassPermanent,
				// a quarter of the attempts is enough where each may take long
				byItself && r.alone && p.failed.set(a, p.failed.of(a)+(l.attempts+3)/4) >= l.attempts,
				byItself && !r.alone && alive && p.failed.set(a, p.failed.of(a)+1) >= l.attempts:
				p.leaveOut(a, r.err)
			default:
				again, last = append(again, *a), r.err
			}
		}
		if whole != nil {
			if ctx.Err() == nil {
				p.failure(whole, began) // live changes wait, too
			}
			return whole
		}
		p.window.answered(began, refused, sent, p.wait)
		if items = again; len(items) == 0 {
			return nil
		}
		about := pawl.Describe(last)
		if about.Kind == kindConfig || try > 3 {
			return last // the state says where to go on
		}
		wait := max(policy.Backoff{Base: l.backoff.Base, Max: min(l.backoff.Max, rebuildTries)}.Delay(try, p.random()),
			about.After)
		if err := store.Sleep(ctx, min(wait, rebuildLease/2)); err != nil {
			return err
		}
	}
	return nil
}

// repeatDeletions deletes again what was deleted while its page was on the way, and is not in the table any more.
func (p *projection) repeatDeletions(ctx context.Context, target string, rows []sourceRow, l limits) error {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].id
	}
	deleted, err := p.tombstones(ctx, ids)
	if err != nil || len(deleted) == 0 {
		return err
	}
	there, err := p.source.find(ctx, p.rows, slices.Collect(maps.Keys(deleted)))
	if err != nil {
		return err
	}
	var items []action
	for id, last := range deleted {
		if _, ok := there[id]; !ok {
			items = append(items, action{index: writeAlias(target), id: id, version: last.version, again: true,
				remove: true})
		}
	}
	return p.insist(ctx, items, l)
}

// finish compares the target with the table, and lets the alias point to it if they are equal.
func (p *projection) finish(ctx context.Context, st *state) error {
	found, err := p.search.behind(ctx, p.alias)
	if err != nil {
		return err
	}
	if !slices.Contains(found, st.Target) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var beat = time.Now()
		c, err := verifier{p}.compare(ctx, st.Target, 0, func(int64) {
			if time.Since(beat) > rebuildLease/3 {
				beat = time.Now()
				_, _ = p.lock(ctx, pawl.AnyVersion)
			}
		})
		if err != nil {
			return err
		}
		st.Verdict = c.Verdict
		if c.Verdict != equal {
			st.State = rebuildFailed
			st.Error = "the rebuild is not equal to the table: " + c.String()
			if st.Done < st.Total && c.Missing > 0 {
				st.Error += fmt.Sprintf("; %d of %d rows were read in the order of the key, which needs a type on "+
					"SQLite: CAST(id AS INTEGER), say", st.Done, st.Total)
			}
			return p.put(ctx, st)
		}
		if err := p.put(ctx, st); err != nil { // an abort that came meanwhile wins
			return err
		}
		if err := p.search.point(ctx, writeAlias(st.Index), "", st.Index); err != nil {
			return err
		}
		if err := p.search.point(ctx, p.alias, st.Index, st.Target); err != nil {
			return err
		}
	}
	p.log.Info("the alias points to the rebuilt index", "projection", p.projection, "alias", p.alias, "index",
		st.Target, "before", st.Index)
	st.Previous, st.Index, st.Target, st.State, st.After = st.Index, st.Target, "", running, nil
	return p.put(ctx, st)
}

var (
	errSwaps     = errors.New("the rebuild was found equal, and the alias moves to its index or has moved already")
	errNoRebuild = errors.New("no rebuild is under way")
)

// abort ends a rebuild and removes its target, unless searches may go there already: the verdict is stored before
// the alias moves.
func (p *projection) abort(ctx context.Context) error {
	st, err := p.state(ctx)
	switch {
	case err != nil:
		return err
	case st.Target == "":
		return errNoRebuild
	case st.Verdict == equal:
		return errSwaps
	}
	target := st.Target
	st.Target, st.State, st.After, st.Error = "", running, nil, ""
	if err := p.put(ctx, &st); err != nil {
		return err
	}
	return p.search.remove(ctx, target)
}

var errNothingBefore = errors.New("there is no index to go back to: it is kept from one rebuild to the next")

// rollback lets the alias point to the index before the last rebuild, and writes on to both.
func (p *projection) rollback(ctx context.Context) (state, error) {
	st, err := p.state(ctx)
	switch {
	case err != nil:
		return st, err
	case st.Target != "":
		return st, errors.New("a rebuild is under way: end it first with --abort")
	case st.Previous == "":
		return st, errNothingBefore
	}
	if err := p.search.point(ctx, writeAlias(st.Index), "", st.Index); err != nil {
		return st, err
	}
	if err := p.search.point(ctx, p.alias, st.Index, st.Previous); err != nil {
		return st, err
	}
	st.Index, st.Previous = st.Previous, st.Index
	return st, p.put(ctx, &st)
}
