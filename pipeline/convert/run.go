package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// run is one pass over the files of some sources.
type run struct {
	id          string
	sources     []source
	out         string
	outInfo     fs.FileInfo
	filter      filter
	options     string // what outputs depend on, beside their source
	maxRetries  int
	retryFailed bool
	pageMarkers bool
	hidden      bool
	rawNumbers  bool
	charset     string // of texts that do not say it; empty: it is guessed
	images      images
	registry    *Registry
	model       *improver // nil: no language model
	log         *slog.Logger

	store      store.Store
	marks      store.Shared
	scope      string // of the records
	topic      string
	hand       *hand
	cpu        chan struct{}
	limit      *dispatch.Limiter
	most       int // requests, or conversions, at once
	dispatcher *dispatch.Dispatcher
	stats      stats
	surveyed   atomic.Bool
	changed    atomic.Bool // since state.json was written
	stop       context.CancelCauseFunc
}

// drainTimeout is how long work in flight may still take when a run is interrupted.
const drainTimeout = 25 * time.Second

// maxMemory bounds the bytes of the documents that are converted at once.
const maxMemory = 256 << 20

// topicsOf is the prefix of the topics of runs to a folder, so that other runs over the store are left alone. Each
// process has a topic of its own, so that the next run need not wait for the leases of a killed one.
func topicsOf(out string) string {
	sum := sha256.Sum256([]byte(out))
	return "convert.documents-" + hex.EncodeToString(sum[:6]) + "-"
}

// carryOut converts everything that is to be converted. It returns nil when all of it is done or has failed for good.
func (r *run) carryOut(ctx context.Context, in *pipeline.Invocation) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	if err := r.prepare(ctx, in); err != nil {
		return err
	}
	working, finish := context.WithCancel(ctx)
	defer finish()
	stopExport := make(chan struct{})
	var export sync.WaitGroup
	export.Go(func() { r.exportLoop(stopExport) })

	var work sync.WaitGroup
	var problems [3]error
	// An interrupted run still counts its files: state.json has all of them, however the run ends.
	work.Go(func() { problems[0] = r.survey(context.WithoutCancel(ctx)) })
	work.Go(func() {
		if problems[1] = r.feed(working); problems[1] == nil {
			problems[1] = r.hand.wait(working, r.hand.most)
		}
		finish()
	})
	work.Go(func() { problems[2] = r.dispatcher.Run(working); finish() })
	work.Go(func() { r.findTaken(working) })
	work.Wait()
	close(stopExport)
	export.Wait()
	r.forget(context.WithoutCancel(ctx), r.topic)
	if err := r.export(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errHalted):
		return cause
	case cause != nil:
		return errInterrupted
	}
	for _, err := range problems {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// prepare makes what the run works with.
func (r *run) prepare(ctx context.Context, in *pipeline.Invocation) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	r.topic = topicsOf(r.out) + pawl.NewID()[24:]
	topic := dispatch.Topic{
		Name: r.topic, Handler: r, Concurrency: r.most, Event: event,
		Settings: store.Declaration{Name: r.topic, Order: store.OrderNone, Deadline: time.Hour},
	}
	if r.model != nil {
		limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "llm." + r.model.provider.ID, Adaptive: r.most,
			AIMD: &dispatch.AIMD{}})
		if err != nil {
			return err
		}
		r.limit, topic.Limits = limit, []*dispatch.Limiter{limit}
	}
	// Messages are appended before the dispatcher, which declares topics, has started.
	if topics, ok := r.store.(store.Topics); ok {
		if _, err := topics.Declare(ctx, topic.Settings); err != nil {
			return err
		}
	}
	d, err := dispatch.New(r.store, dispatch.Config{
		Topics: []dispatch.Topic{topic}, Policy: in.Policy, Owner: in.Owner, DrainTimeout: drainTimeout,
		Logger: slog.New(slog.DiscardHandler), // the run logs its files itself
	})
	r.dispatcher = d
	return err
}

// clear removes what earlier runs have left: messages of a killed one, and dead letters that are to be tried again.
func (r *run) clear(ctx context.Context) error {
	topics, ok := r.store.(store.Topics)
	inspector, ok2 := r.store.(store.Inspector)
	dead, ok3 := r.store.(store.DeadLetters)
	if !ok || !ok2 || !ok3 {
		return nil
	}
	all, err := topics.Stats(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if !strings.HasPrefix(t.Name, topicsOf(r.out)) {
			continue
		}
		waiting, err := ids(inspector.List(ctx, store.Filter{Topic: t.Name}))
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			if _, err := inspector.Cancel(ctx, waiting...); err != nil {
				return err
			}
		}
		if r.retryFailed {
			if err := purge(ctx, dead, t.Name); err != nil {
				return err
			}
		}
		r.forget(ctx, t.Name)
	}
	return nil
}

// purge removes the dead letters of a topic.
func purge(ctx context.Context, dead store.DeadLetters, topic string) error {
	letters, err := ids(dead.Dead(ctx, store.DeadFilter{Topic: topic, Brief: true}))
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(letters, 500) {
		if _, err := dead.Purge(ctx, chunk...); err != nil {
			return err
		}
	}
	return nil
}

func ids(records iter.Seq2[store.Record, error]) (all []string, err error) {
	for m, err := range records {
		if err != nil {
			return nil, err
		}
		all = append(all, m.ID)
	}
	return all, nil
}

// forget removes a topic of a run that is over, unless there are dead letters in it.
func (r *run) forget(ctx context.Context, topic string) {
	if s, ok := store.As[store.Topics](r.store); ok {
		_ = s.RemoveTopic(ctx, topic)
	}
}

var errInterrupted = errors.New("interrupted")

// event names the work for the policy.
var event = policy.Event{Domain: policy.Engine, Type: "Convert"}

// findSources names the sources of a run, and what tells their files apart.
func findSources(args []string) ([]source, error) {
	var all []source
	seen := map[string]bool{}
	for _, a := range args {
		path, err := filepath.EvalSymlinks(a) // a link is followed where it is named, not where it is found
		if err != nil {
			return nil, err
		}
		abs, err := filepath.Abs(a)
		if err != nil {
			return nil, err
		}
		s := source{path: path, name: filepath.Base(abs)}
		if seen[s.name] {
			return nil, fmt.Errorf("two sources are called %s: their outputs would be the same files", s.name)
		}
		seen[s.name] = true
		s.many = len(args) > 1
		all = append(all, s)
	}
	return all, nil
}
