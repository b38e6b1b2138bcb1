package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
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
	Returning Stage = "returning" // as Moved, and claims carry back to the primary
)

// Fresh is how long a process relies on the stages that it has read.
const Fresh = 2 * time.Second

const (
	refreshEvery = Fresh / 4
	lookAgain    = 100 * time.Millisecond // while appends wait
	stagePrefix  = "traffic/topic/"
	writerPrefix = "traffic/writer/"
	maxName      = store.MaxStateKey - len(writerPrefix)
)

// Plan is the entry of a topic in the state of the primary, as JSON.
type Plan struct {
	Topic string `json:"topic"`
	Stage Stage  `json:"stage"`
	// As is the topic's name in the mirrored store; empty: the same.
	As string `json:"as,omitempty"`
	// Sample is the share of lanes that are copied, from 0 to 1; 0 is all of them.
	Sample float64 `json:"sample,omitempty"`
	// From is the stage to which Closing falls back at Until, by the primary's clock,
	// when the process that closed the topic does not continue.
	From  Stage     `json:"from,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Since is when the stage began, by the primary's clock.
	Since time.Time `json:"since"`
	// Position is what they had appended when the topic was moved.
	Position *Figures `json:"position,omitempty"`
	// Target tells, without a password, to which store the topic moves.
	Target string `json:"target,omitempty"`

	version int64
}

// Version is that of the entry in the primary's state; 0 for a plan that is not there.
func (p *Plan) Version() int64 { return p.version }

// Figures are totals of a topic in both stores.
type Figures struct {
	Primary  int64 `json:"primary"`
	Mirrored int64 `json:"mirrored"`
}

// InMirrored is the topic's name in the mirrored store.
func (p *Plan) InMirrored() string { return cmp.Or(p.As, p.Topic) }

// Samples reports whether a message of the topic is copied: whole lanes are, or none of
// them.
func (p *Plan) Samples(m *pawl.Message) bool {
	return p.Sample == 0 || p.Sample >= 1 || float64(share(m)) < p.Sample*(1<<32)
}

// acting is the stage that counts: that of a closing that was given up is the one
// before.
func (p *Plan) acting(now time.Time) Stage {
	if p.Stage == Closing && now.After(p.Until) {
		return p.From
	}
	return p.Stage
}

// Validate reports what is invalid in a plan.
func (p *Plan) Validate() error {
	for _, name := range []string{p.Topic, p.InMirrored()} {
		if err := pawl.ValidTopic(name); err != nil {
			return err
		}
	}
	if p.Sample < 0 || p.Sample > 1 {
		return pawl.Invalid("sample", "is %v; it goes from 0 to 1", p.Sample)
	}
	return nil
}

// share is a number that all messages of a lane have in common.
func share(m *pawl.Message) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.Topic)) // a hash never fails
	_, _ = h.Write([]byte{0})
	if m.Key != nil {
		_, _ = h.Write(m.Key)
	} else {
		_, _ = h.Write([]byte(m.ID))
	}
	// FNV alone spreads short keys badly over its upper bits.
	n := h.Sum32()
	n ^= n >> 16
	n *= 0x85ebca6b
	n ^= n >> 13
	n *= 0xc2b2ae35
	return n ^ n>>16
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
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := ps.state.Clock(ctx)
	if err != nil {
		return err
	}
	p.Since = now.UTC()
	if p.Stage == Off {
		if p.version == 0 {
			return nil
		}
		err := ps.state.DeleteState(ctx, stagePrefix+p.Topic, p.version)
		if err == nil {
			p.version = 0
		}
		return err
	}
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
