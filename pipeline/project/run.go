package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

const (
	lookEvery    = time.Second     // at the index and its alias
	figuresEvery = 2 * time.Second // at the outbox
	askLimit     = 5 * time.Second
)

// lastSeen is the last known state.
type lastSeen struct {
	database, search string // errors; empty: healthy
	alias            string // what is wrong with the alias
	standing         outboxState
	flag             flag
}

// run looks after the index: it makes the first one, parks the projection while the alias is missing, and
// takes the figures.
func (p *projection) run(ctx context.Context) error {
	var rebuilding sync.WaitGroup
	defer rebuilding.Wait()
	rebuilding.Go(func() { p.rebuildLoop(ctx) })
	looked := time.NewTicker(lookEvery)
	defer looked.Stop()
	var last, kept time.Time
	for {
		p.look(ctx)
		if time.Since(last) >= figuresEvery {
			last = time.Now()
			p.measure(ctx)
		}
		if time.Since(kept) >= prolongEvery {
			kept = time.Now()
			if err := p.prolongTombstones(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("tombstones were not prolonged", "projection", p.projection, "error", p.redact(err.Error()))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-looked.C:
		}
	}
}

func (p *projection) rebuildLoop(ctx context.Context) {
	for {
		if err := p.rebuild(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the rebuild goes on later", "projection", p.projection, "error", p.redact(err.Error()))
		}
		if store.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}

// look checks the alias.
func (p *projection) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	why, err := p.aliased(ctx)
	if ctx.Err() != nil && err != nil && errors.Is(err, context.Canceled) {
		return
	}
	was, _ := p.window.why()
	if err == nil {
		p.window.park(why)
	}
	p.mu.Lock()
	before := p.pulse.search
	p.pulse.search = ""
	if err != nil && !errors.Is(err, errDatabase) { // measure reports that
		p.pulse.search = p.redact(err.Error())
	}
	if err == nil {
		p.pulse.alias = why
	}
	now := p.pulse.search
	p.mu.Unlock()
	p.tell("search index", before, now)
	if err == nil && why == "" && was != "" {
		p.log.Info("the projection goes on", "projection", p.projection)
	}
	if err == nil && why != "" && was == "" {
		p.log.Error("the projection is parked", "projection", p.projection, "why", why)
	}
	p.heedResume(ctx)
	p.tellHold(ctx)
	p.reopen()
}

// tell logs that a server, whose errors these are, no longer answers, or answers again.
func (p *projection) tell(server, before, now string) {
	switch {
	case before == "" && now != "":
		p.log.Warn("the "+server+" does not answer", "projection", p.projection, "error", now)
	case before != "" && now == "":
		p.log.Info("the "+server+" answers again", "projection", p.projection)
	}
}

// errDatabase is wrapped by errors that are no fault of the search index.
var errDatabase = errors.New("database")

// aliased says what is wrong with the alias; where nothing was made yet, it makes the first index.
func (p *projection) aliased(ctx context.Context) (why string, err error) {
	found, err := p.search.behind(ctx, p.alias)
	if err != nil {
		return "", err
	}
	st, err := p.state(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errDatabase, err)
	}
	switch {
	case len(found) == 1 && st.Index == "":
		return "", p.first(ctx, st, found[0])
	case len(found) == 1 && slices.Contains([]string{st.Index, st.Target, st.Previous}, found[0]):
		return "", nil
	case len(found) == 1:
		return fmt.Sprintf("the alias %s points to %s, not to %s", p.alias, found[0], st.Index), nil
	case len(found) > 1:
		return fmt.Sprintf("the alias %s points to %d indices", p.alias, len(found)), nil
	case st.Index != "":
		return fmt.Sprintf("the alias %s is missing; it pointed to %s", p.alias, st.Index), nil
	}
	names, err := p.search.named(ctx, p.alias)
	if err != nil && !missing(err) {
		return "", err
	}
	first := indexAfter(p.alias, "")
	if len(names) > 0 && !slices.Equal(names, []string{first}) {
		return fmt.Sprintf("the alias %s is missing, but %v are there", p.alias, names), nil
	}
	if len(names) == 0 {
		if err := p.search.create(ctx, first, p.mapping); err != nil {
			return "", err
		}
	}
	if err := p.search.point(ctx, p.alias, "", first); err != nil {
		return "", err
	}
	return "", p.first(ctx, st, first)
}

// first stores which index the alias points to when that is not known yet.
func (p *projection) first(ctx context.Context, st state, index string) error {
	st.Index, st.State = index, running
	if err := p.put(ctx, &st); err != nil {
		return fmt.Errorf("%w: %w", errDatabase, err)
	}
	return nil
}

// doctor asks the search server, and looks at the alias.
func doctor(ctx context.Context, env pipeline.Env) []pipeline.Finding {
	section := "pipelines." + env.Name
	p, err := newProjection(env.Name, env.Section)
	if err != nil {
		return []pipeline.Finding{{Problem: err.Error(), Next: "correct " + section}}
	}
	found, err := p.search.behind(ctx, p.alias)
	switch {
	case err != nil:
		return []pipeline.Finding{{Problem: "the search server does not answer: " + err.Error(),
			Next: "see that it runs, and check url (https: where it has TLS), username, password and ca_file in " +
				section + ".sink"}}
	case len(found) == 0:
		return []pipeline.Finding{{Warning: true, Problem: "there is no alias " + p.alias + " yet",
			Next: "`pawl up` makes it; if it was there before, see `pawl project status`"}}
	case len(found) > 1:
		return []pipeline.Finding{{Problem: fmt.Sprintf("the alias %s points to %d indices", p.alias, len(found)),
			Next: "let it point to the one that `pawl project status " + p.projection + "` names"}}
	}
	return nil
}

// outboxState is the state of the outbox.
type outboxState struct {
	pending, processing, stuck, failed int64
	oldest                             time.Duration
	success                            time.Time
	paused                             *store.Pause
}

// measure takes the figures.
func (p *projection) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	s, err := p.readOutbox(ctx)
	var f flag
	if err == nil {
		f, err = p.flag(ctx)
	}
	p.mu.Lock()
	before, now := p.pulse.database, ""
	if err == nil {
		p.pulse.standing, p.pulse.flag = s, f
	} else {
		now = p.redact(err.Error())
	}
	p.pulse.database = now
	p.mu.Unlock()
	p.tell("database", before, now)
}

func (p *projection) stats(ctx context.Context) (store.TopicStats, error) {
	topics, ok := store.As[store.Topics](p.store)
	if !ok {
		return store.TopicStats{}, nil
	}
	all, err := topics.Stats(ctx, p.topic)
	if err != nil || len(all) == 0 {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return store.TopicStats{}, err
	}
	return all[0], nil
}

// readOutbox asks the store for the state of the outbox.
func (p *projection) readOutbox(ctx context.Context) (s outboxState, err error) {
	stats, err := p.stats(ctx)
	if err != nil {
		return s, err
	}
	s.pending, s.processing, s.failed = stats.Waiting+stats.Delayed, stats.Leased, stats.Dead
	s.success, s.paused = stats.LastAck, stats.Paused
	looker, ok := store.As[store.Inspector](p.store)
	if ok && s.pending+s.processing > 0 {
		now, err := p.entries.Clock(ctx)
		if err != nil {
			return s, err
		}
		for _, of := range []store.State{"", store.Leased} {
			n := 1
			if of == store.Leased {
				n = 10_000
			}
			for r, err := range looker.List(ctx, store.Filter{Topic: p.topic, State: of, Limit: n}) {
				if err != nil {
					return s, err
				}
				s.oldest = max(s.oldest, now.Sub(r.EnqueuedAt))
				if l := r.Lease; of == store.Leased && l != nil &&
					(now.After(l.Until) || now.Sub(l.StartedAt) > p.deadline) {
					s.stuck++
				}
			}
		}
	}
	return s, nil
}

// health is called often: it returns what run has last seen.
func (p *projection) health(context.Context) pipeline.Health {
	p.mu.Lock()
	now, sla, success, known := p.pulse, p.live.sla, p.success, p.known
	p.mu.Unlock()
	if now.standing.success.After(success) {
		success = now.standing.success
	}
	_, level := p.window.why()
	if level > 1 && now.search == "" {
		now.search = "bulk requests fail"
	}
	well := func(problem string) map[string]any { return map[string]any{"ok": problem == "", "error": problem} }
	last := map[string]any{"last_success_at": nil}
	if !success.IsZero() {
		last["last_success_at"] = success.UTC()
	}
	h := pipeline.Health{LastSuccess: success, Details: map[string]any{
		"database": well(now.database), "search": well(now.search), "projections": map[string]any{p.projection: last},
	}}
	waits := now.standing.pending+now.standing.processing > 0 && now.standing.paused == nil
	late := waits && now.standing.oldest > sla && time.Since(success) > sla
	switch {
	case now.database != "":
		h.Degraded, h.Unhealthy = "the database does not answer: "+now.database, true
	case now.search != "":
		h.Degraded, h.Unhealthy = "the search index does not answer: "+now.search, true
	case now.alias != "":
		h.Degraded, h.Unhealthy = now.alias, late
	case p.window.hold().lasts():
		h.Degraded, h.Unhealthy = "paused "+p.window.hold().String(), late
	case waits && now.standing.oldest > sla:
		h.Degraded, h.Unhealthy = fmt.Sprintf("the oldest change has waited for %v",
			now.standing.oldest.Round(time.Second)), late
	case known.Error != "":
		h.Degraded = known.Error
	}
	return h
}

// routes are served below /pipelines/NAME.
func (p *projection) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"GET /flag": func(w http.ResponseWriter, r *http.Request) {
		f, err := p.flag(r.Context())
		if err != nil {
			p.mu.Lock()
			f = p.pulse.flag // as last seen: readers depend on it, and the database is away
			p.mu.Unlock()
			if f.Read == "" {
				f.Read = "on"
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(f)
	}}
}

// replayHeader marks a change that was replayed: what became of it is kept when it is written.
const replayHeader = "replayed"

func (p *projection) letters() string { return OutboxLetters + p.projection }

// resolve notes that a dead letter was written at last.
func (p *projection) resolve(ctx context.Context, id string) {
	found, err := p.marks.GetMarks(ctx, p.letters(), id)
	m, ok := found[id]
	if err != nil || !ok {
		return
	}
	var v map[string]any
	if json.Unmarshal(m.Value, &v) != nil {
		return
	}
	v["resolved_at"] = time.Now().UTC().Format(time.RFC3339Nano)
	value, err := json.Marshal(v)
	if err == nil {
		_, err = p.marks.PutMarks(ctx, pawl.Mark{Scope: p.letters(), Key: id, Value: value, If: pawl.AnyVersion})
	}
	if err != nil {
		p.log.Warn("a dead letter was not marked as resolved", "projection", p.projection, "id", id, "error",
			p.redact(err.Error()))
	}
}
