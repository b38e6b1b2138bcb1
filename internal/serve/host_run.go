package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// How often a pipeline's record is written, and how long it waits before its Run is called again.
const (
	recordEvery = 5 * time.Second
	againFirst  = time.Second
	againMost   = 30 * time.Second
)

// Prepare creates the topics of all stages, so that they can be listed and paused before their first message, and
// records the pipelines.
func (h *Host) Prepare(ctx context.Context) error {
	topics, ok := store.As[store.Topics](h.Store)
	if !ok {
		return nil
	}
	for _, t := range h.Topics() {
		d := t.Settings
		d.Name = t.Name
		if _, err := topics.Declare(ctx, d); err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
	}
	h.record(ctx)
	return nil
}

// Run carries out what the daemon's dispatcher does not, until ctx has ended and all of it has drained. An error
// that no repetition mends calls fail, which is to end ctx.
func (h *Host) Run(ctx context.Context, fail func(error)) error {
	var wg, stages sync.WaitGroup
	errs := make([]error, len(h.beside))
	for i, d := range h.beside {
		stages.Go(func() {
			if errs[i] = d.Run(ctx); errs[i] != nil {
				fail(errs[i])
			}
		})
	}
	for _, p := range h.hosted {
		if p.made.Run != nil {
			wg.Go(func() { h.keepRunning(ctx, p, fail) })
		}
	}
	wg.Go(func() { h.keepRecords(ctx) })
	stages.Wait()
	wg.Wait()
	return errors.Join(errs...)
}

// Drained tells the pipelines that nothing of them runs any more, and closes their stores.
func (h *Host) Drained() {
	for _, p := range h.hosted {
		if p.made.Drained != nil {
			p.made.Drained()
		}
	}
	h.Close()
}

// keepRunning calls a pipeline's Run again when it ends early.
func (h *Host) keepRunning(ctx context.Context, p *hosted, fail func(error)) {
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		began := time.Now()
		err := p.made.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case pipeline.IsFatal(err):
			fail(fmt.Errorf("pipeline %s: %w", p.Name, err))
			return
		case err == nil:
			err = errors.New("it ended by itself")
		}
		if time.Since(began) > againMost {
			wait = againFirst
		}
		p.say("it does not run: " + h.redact(err.Error()))
		h.Logger.Error("a pipeline does not run; it is started again", "pipeline", p.Name, "error",
			h.redact(err.Error()), "after", wait)
		if store.Sleep(ctx, wait) != nil {
			return
		}
		p.say("")
	}
}

func (p *hosted) say(broken string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

// keepRecords keeps what `pawl pipelines ls` shows up to date.
func (h *Host) keepRecords(ctx context.Context) {
	for store.Sleep(ctx, recordEvery) == nil {
		h.record(ctx)
	}
}

func (h *Host) record(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordEvery)
	defer cancel()
	for _, p := range h.hosted {
		now := p.health(ctx)
		r := operate.PipelineRecord{Kind: p.Kind.Name, Topics: []string{}, Degraded: h.redact(now.Degraded),
			LastSuccess: now.LastSuccess}
		for _, st := range p.made.Stages {
			if st.Store == nil || st.Store == h.Store {
				r.Topics = append(r.Topics, st.Name)
			}
		}
		if err := operate.RecordPipeline(ctx, h.Store, p.Name, h.Owner, r); err != nil {
			h.Logger.Debug("the record of a pipeline could not be written", "pipeline", p.Name, "error", err)
		}
	}
}
