package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Stage says which store serves a topic, and how.
type Stage string

// The stages, in the order in which a topic goes through them.
const (
	Off       Stage = ""          // the primary's alone
	Dual      Stage = "dual"      // the primary is in charge, and copied
	Closing   Stage = "closing"   // appends wait
	Draining  Stage = "draining"  // appends go to the mirrored store, claims to the primary
	Moved     Stage = "moved"     // the mirrored store is in charge
	Returning Stage = "returning" // appends go to the primary, claims to the mirrored store
)

// Fresh is how long a process relies on the stages that it has read.
const Fresh = 2 * time.Second

const (
	refreshEvery = Fresh / 4
	lookAgain    = 100 * time.Millisecond // while appends wait
	stagePrefix  = "traffic/topic/"
)

// Plan is the entry of a topic in the state of the primary, as JSON.
type Plan struct {
	Topic string `json:"topic"`
	Stage Stage  `json:"stage"`
	// From is the stage to which Closing falls back at Until, by the primary's clock,
	// when the process that closed the topic does not continue.
	From  Stage     `json:"from,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Since is when the stage began, by the primary's clock.
	Since time.Time `json:"since"`
	// Target tells, without a password, to which store the topic moves.
	Target string `json:"target,omitempty"`

	version int64
}

// Version is that of the entry in the primary's state; 0 for a plan that is not there.
func (p *Plan) Version() int64 { return p.version }

// acting is the stage that counts: that of a closing that was given up is the one
// before.
func (p *Plan) acting(now time.Time) Stage {
	if p.Stage == Closing && now.After(p.Until) {
		return p.From
	}
	return p.Stage
}

// Plans keeps plans in the state of the primary. It is safe for concurrent use.
type Plans struct{ state store.Shared }

// OpenPlans finds what plans need of a store.
func OpenPlans(primary store.Store) (*Plans, error) {
	state, ok := store.As[store.Shared](primary)
	if !ok {
		return nil, &store.Error{Op: "traffic", Code: store.ErrUnsupported,
			Err: fmt.Errorf("the stages need %s", store.CanState)}
	}
	return &Plans{state}, nil
}

// Get returns the plan of a topic; one that has none is [Off].
func (ps *Plans) Get(ctx context.Context, topic string) (*Plan, error) {
	e, err := ps.state.GetState(ctx, stagePrefix+topic)
	if errors.Is(err, store.ErrNotFound) {
		return &Plan{Topic: topic}, nil
	}
	if err != nil {
		return nil, err
	}
	return readPlan(&e)
}

// Put stores a plan, if nobody has changed it since it was read; [store.ErrConflict]
// otherwise. A plan that is [Off] is removed.
func (ps *Plans) Put(ctx context.Context, p *Plan, who string) error {
	if err := pawl.ValidTopic(p.Topic); err != nil {
		return err
	}
	if p.Stage == Off && p.version == 0 {
		return nil
	}
	if p.Stage == Off {
		err := ps.state.DeleteState(ctx, stagePrefix+p.Topic, p.version)
		if err == nil {
			p.version = 0
		}
		return err
	}
	now, err := ps.state.Clock(ctx)
	if err != nil {
		return err
	}
	p.Since = now.UTC()
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	e, err := ps.state.PutState(ctx, stagePrefix+p.Topic, b, p.version, who)
	if err == nil {
		p.version = e.Version
	}
	return err
}

// Clock is the time by the primary's clock.
func (ps *Plans) Clock(ctx context.Context) (time.Time, error) { return ps.state.Clock(ctx) }

// List returns the plans of all topics, by name.
func (ps *Plans) List(ctx context.Context) (map[string]*Plan, error) {
	found := map[string]*Plan{}
	for e, err := range ps.state.ListState(ctx, stagePrefix, 0) {
		if err != nil {
			return nil, err
		}
		p, err := readPlan(&e)
		if err != nil {
			return nil, err
		}
		found[p.Topic] = p
	}
	return found, nil
}

func readPlan(e *store.Entry) (*Plan, error) {
	p := &Plan{version: e.Version}
	if err := json.Unmarshal(e.Value, p); err != nil {
		return nil, &store.Error{Op: "read " + e.Key, Code: store.ErrCorrupt, Err: err}
	}
	p.Topic = strings.TrimPrefix(e.Key, stagePrefix)
	return p, nil
}
