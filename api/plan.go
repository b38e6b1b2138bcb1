package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
)

// planBody is the body of POST /v1/dead/replay and its like: what to plan, or a plan to carry out.
type planBody struct {
	Filter       *planFilter `json:"filter"`
	IDs          []string    `json:"ids"`
	All          bool        `json:"all"`
	Plan         bool        `json:"plan"`
	To           string      `json:"to"`
	Rate         *float64    `json:"rate"`
	Edit         string      `json:"edit"`
	KeepAttempts bool        `json:"keep_attempts"`
	Reason       string      `json:"reason"`
	PlanID       string      `json:"plan_id"`

	kind string // of the operation
}

func (b *planBody) check() error {
	if b.PlanID != "" {
		return nil
	}
	var faults []wire.Fault
	bad := func(wrong bool, field, why string) {
		if wrong {
			faults = append(faults, wire.Fault{Field: field, Why: why})
		}
	}
	replay := b.kind == operate.KindReplay
	bad(b.Filter == nil && len(b.IDs) == 0 && !b.All, "filter", "or ids or all is needed: nothing is selected")
	bad(b.Filter != nil && b.Filter.Limit < 0, "filter.limit", "is negative")
	bad(b.Rate != nil && !(*b.Rate > 0), "rate", "is how many a second, above 0")
	bad(b.Edit != "" && !replay, "edit", "goes with replay")
	bad(b.KeepAttempts && !replay, "keep_attempts", "goes with replay")
	bad(b.To != "" && !replay, "to", "goes with replay")
	if err := pawl.ValidTopic(b.To); b.To != "" && err != nil {
		bad(true, "to", faultsIn(err)[0].Why)
	}
	return invalid(faults)
}

// planFilter selects dead letters as the flags of the command do.
type planFilter struct {
	Topic       string            `json:"topic"`
	Key         string            `json:"key"`
	Kind        string            `json:"kind"`
	Reason      string            `json:"reason"`
	Fingerprint string            `json:"fingerprint"`
	Search      string            `json:"search"`
	Since       *time.Time        `json:"since"`
	Until       *time.Time        `json:"until"`
	Attrs       map[string]string `json:"attrs"`
	Resolved    bool              `json:"resolved"`
	Limit       int               `json:"limit"`
}

// planned is a plan in the state of the store, until it is carried out.
type planned struct {
	Operation *operate.Operation `json:"operation"`
	Used      bool               `json:"used"`
}

// planAnswer is a plan, as --dry-run prints it.
type planAnswer struct {
	PlanID string `json:"plan_id"`
	*operate.Plan
}

const (
	planPrefix = keyScope + "plan/"
	planFor    = 24 * time.Hour
	// replayRate is how many dead letters a second a replay does, unless it says otherwise.
	replayRate = 100
)

// operate plans an operation, or carries out one that was planned.
func (x *exchange) operate(kind string) error {
	b := planBody{kind: kind}
	if err := x.read(&b); err != nil {
		return err
	}
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	if b.PlanID != "" {
		return x.carryOutPlan(ctx, ops, kind, b.PlanID)
	}
	sel, err := x.selection(&b)
	if err != nil {
		return err
	}
	plan, err := operate.MakePlan(ctx, ops.Store, ops.Letters, sel, kind, b.To)
	if err != nil {
		return err
	}
	if b.Edit != "" {
		if plan.Edits, err = operate.Preview(ctx, ops.Store, ops.Letters, sel, b.Edit); err != nil {
			return fault("edit", err.Error())
		}
	}
	for _, t := range plan.Topics {
		if err := x.needTopic(t.Topic); err != nil {
			return err
		}
	}
	o, err := ops.Plan(ctx, kind, x.caller.name, sel, plan)
	if err != nil {
		return err
	}
	o.To, o.Edit, o.KeepAttempts, o.Reason = b.To, b.Edit, b.KeepAttempts, x.reason(b.Reason)
	if kind == operate.KindReplay {
		o.Rate = replayRate
	}
	if b.Rate != nil {
		o.Rate = *b.Rate
	}
	if err := x.keepPlan(ctx, ops.State, o); err != nil {
		return err
	}
	return x.answer(http.StatusOK, planAnswer{o.ID, plan})
}

// selection is what a plan is about.
func (x *exchange) selection(b *planBody) (sel operate.Selection, err error) {
	f := cmp.Or(b.Filter, &planFilter{})
	sel.IDs = b.IDs
	sel.Filter = store.DeadFilter{Topic: f.Topic, Kind: pawl.Kind(f.Kind), Reason: f.Reason, Fingerprint: f.Fingerprint,
		Text: f.Search, Attrs: f.Attrs, Limit: f.Limit, Resolved: new(f.Resolved || b.kind == operate.KindReopen)}
	if f.Key != "" {
		sel.Filter.Key = []byte(f.Key)
	}
	if f.Since != nil {
		sel.Filter.Since = *f.Since
	}
	if f.Until != nil {
		sel.Filter.Until = *f.Until
	}
	if f.Topic != "" {
		err = x.needTopic(f.Topic)
	} else if len(b.IDs) == 0 {
		err = x.needWhole()
	}
	if b.To != "" && err == nil {
		err = x.needTopic(b.To)
	}
	return sel, err
}

// keepPlan stores a plan, and drops old ones.
func (x *exchange) keepPlan(ctx context.Context, state store.Shared, o *operate.Operation) error {
	now, err := state.Clock(ctx)
	if err != nil {
		return err
	}
	for e, err := range state.ListState(ctx, planPrefix, 0) {
		if err != nil {
			return err
		}
		if now.Sub(e.At) > planFor {
			_ = state.DeleteState(ctx, e.Key, e.Version) // the next one tries again
		}
	}
	text, err := json.Marshal(planned{Operation: o})
	if err == nil {
		_, err = state.PutState(ctx, planPrefix+o.ID, text, 0, x.caller.name)
	}
	return err
}

// carryOutPlan begins an operation as it was planned. What died since is not in it. The operation is stored before the
// plan is used up: it is begun once in any case.
func (x *exchange) carryOutPlan(ctx context.Context, ops *operate.Operations, kind, id string) error {
	used := conflict("the plan is carried out already; see its operation")
	e, err := ops.State.GetState(ctx, planPrefix+id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no such plan; they are kept for a day")
	}
	if err != nil {
		return err
	}
	var p planned
	if err := json.Unmarshal(e.Value, &p); err == nil && p.Used {
		return used
	} else if err != nil || p.Operation == nil || p.Operation.Kind != kind {
		return notFound("there is no such plan of this kind")
	}
	if !x.caller.sees(p.Operation) {
		return forbidden("the plan is about other topics")
	}
	p.Operation.Who = x.caller.name
	if err := x.run(ctx, ops, p.Operation); errors.Is(err, store.ErrConflict) {
		return used
	} else if err != nil {
		return err
	}
	text, err := json.Marshal(planned{Used: true})
	if err == nil {
		_, err = ops.State.PutState(ctx, e.Key, text, e.Version, x.caller.name)
	}
	if err != nil {
		x.api.config.Logger.Warn("a plan is not marked as used", "plan", id, "error", err)
	}
	return x.answer(http.StatusAccepted, map[string]string{"operation_id": p.Operation.ID})
}
