package operate

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A daemon keeps a record of each of its pipelines in the state of its store, so that commands find their topics
// without the configuration file.

const pipelinePrefix = "pipeline/"

// PipelineRecord is what a daemon records about a pipeline.
type PipelineRecord struct {
	Kind        string    `json:"kind"`
	Topics      []string  `json:"topics"`
	Degraded    string    `json:"degraded,omitempty"`
	LastSuccess time.Time `json:"last_success,omitzero"`
}

// Pipeline is a pipeline as JSON.
type Pipeline struct {
	Name                 string     `json:"name"`
	Kind                 string     `json:"kind"`
	State                string     `json:"state"` // running, paused or degraded
	Why                  string     `json:"why,omitempty"`
	Waiting              int64      `json:"waiting"`
	Leased               int64      `json:"leased"`
	Dead                 int64      `json:"dead"`
	OldestWaitingSeconds float64    `json:"oldest_waiting_seconds"`
	LastSuccessAt        *time.Time `json:"last_success_at"`
	Topics               []string   `json:"topics"`
}

// RecordPipeline stores a daemon's record of a pipeline.
func RecordPipeline(ctx context.Context, s store.Store, name, owner string, r PipelineRecord) error {
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = entries.PutState(ctx, pipelinePrefix+name, text, store.AnyVersion, owner)
	return err
}

// Pipelines returns the pipelines that were ever run on a store, with the figures of their topics.
func Pipelines(ctx context.Context, s store.Store) ([]Pipeline, error) {
	entries, ok := store.As[store.Shared](s)
	topics, both := store.As[store.Topics](s)
	if !ok || !both {
		return nil, &store.Error{Op: "list pipelines", Code: store.ErrUnsupported}
	}
	all := []Pipeline{}
	for e, err := range entries.ListState(ctx, pipelinePrefix, 0) {
		if err != nil {
			return nil, err
		}
		var r PipelineRecord
		if json.Unmarshal(e.Value, &r) != nil {
			continue // of another version
		}
		p, err := pipelineNow(ctx, topics, e.Key[len(pipelinePrefix):], &r)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func pipelineNow(ctx context.Context, topics store.Topics, name string, r *PipelineRecord) (Pipeline, error) {
	p := Pipeline{Name: name, Kind: r.Kind, State: "running", Why: r.Degraded, Topics: r.Topics}
	if !r.LastSuccess.IsZero() {
		p.LastSuccessAt = new(r.LastSuccess.UTC())
	}
	if p.Why != "" {
		p.State = "degraded"
	}
	if len(r.Topics) == 0 {
		return p, nil
	}
	stats, err := topics.Stats(ctx, r.Topics...)
	if err != nil {
		return p, err
	}
	paused := 0
	for i := range stats {
		st := &stats[i]
		p.Waiting, p.Leased, p.Dead = p.Waiting+st.Waiting+st.Delayed, p.Leased+st.Leased, p.Dead+st.Dead
		p.OldestWaitingSeconds = max(p.OldestWaitingSeconds, st.OldestWaiting.Seconds())
		if last := st.LastAck; r.LastSuccess.IsZero() && !last.IsZero() &&
			(p.LastSuccessAt == nil || last.After(*p.LastSuccessAt)) { // it does not report successes
			p.LastSuccessAt = new(last.UTC())
		}
		if st.Paused != nil {
			paused++
			p.Why = st.Paused.Reason
		}
	}
	if paused > 0 && paused == len(stats) {
		p.State = "paused"
	}
	return p, nil
}

// EachTopic calls do for all topics of a pipeline.
func EachTopic(ctx context.Context, s store.Store, name string, do func(store.Topics, string) error) error {
	entries, ok := store.As[store.Shared](s)
	topics, both := store.As[store.Topics](s)
	if !ok || !both {
		return &store.Error{Op: "find pipeline " + name, Code: store.ErrUnsupported}
	}
	e, err := entries.GetState(ctx, pipelinePrefix+name)
	if errors.Is(err, store.ErrNotFound) {
		return &store.Error{Op: "find pipeline " + name, Code: store.ErrNotFound,
			Err:  errors.New("no daemon has run it on this store"),
			Hint: "`pawl pipelines ls` lists those that ran"}
	}
	if err != nil {
		return err
	}
	var r PipelineRecord
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return err
	}
	var errs []error
	for _, topic := range r.Topics {
		errs = append(errs, do(topics, topic))
	}
	return errors.Join(errs...)
}
