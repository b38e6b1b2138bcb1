package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// operation is something to be done to dead letters.
type operation struct {
	kind  string
	to    string // another topic, of a replay
	rate  flag.Rate
	why   string // as the user says it
	edits edits
	keep  bool // the attempts, in a replay
}

// many is how many messages are changed without a question.
const many = 100

// doneWords are what becomes of letters, by kind of operation.
var doneWords = map[string]string{operate.KindReplay: "replayed", operate.KindDiscard: "discarded",
	operate.KindResolve: "resolved", operate.KindReopen: "reopened"}

// operations opens the store for operations.
func (s *session) operations(ctx context.Context) (*operate.Operations, error) {
	opened, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	ops, err := operate.OpenOperations(opened)
	return ops, cannot(err, "carry out operations")
}

// operate plans, asks if need be, and carries it out.
func (s *session) operate(ctx context.Context, sel operate.Selection, o *operation) error {
	ops, err := s.operations(ctx)
	if err != nil {
		return err
	}
	if o.keep || o.kind == operate.KindResolve || o.kind == operate.KindReopen {
		if err := store.Need(ops.Store, store.CanResolve, o.kind); err != nil {
			return cannot(err, "%s dead letters this way", o.kind)
		}
	}
	if sel.IDs, err = s.ids(ctx, sel.IDs...); err != nil {
		return err
	}
	plan, err := operate.MakePlan(ctx, ops.Store, ops.Letters, sel, o.kind, o.to)
	if err != nil {
		return cannot(err, "plan to %s dead letters", o.kind)
	}
	if s.dryRun && o.edits.patch != "" {
		if plan.Edits, err = operate.Preview(ctx, ops.Store, ops.Letters, sel, o.edits.patch); err != nil {
			return cannot(err, "try the edit")
		}
	}
	if s.dryRun {
		return s.one(plan, func(w io.Writer) { describePlan(w, plan, o.kind) })
	}
	for _, w := range plan.Warnings {
		s.note("mind: %s", w)
	}
	if o.kind == operate.KindDiscard && plan.Count > 0 {
		if err := mixedUp(ctx, ops.Letters, sel, plan, o.why); err != nil {
			return err
		}
	}
	if o.kind == operate.KindDiscard && plan.Count > 0 || plan.Count > many {
		what := fmt.Sprintf("%s %s", o.kind, operate.Counted(plan.Count, "dead letter"))
		switch {
		case o.kind == operate.KindDiscard:
			what += " for good"
		case o.rate.PerSecond > 0:
			what += fmt.Sprintf(", at most %g a second", o.rate.PerSecond)
		}
		if err := s.confirm("%s; the oldest died at %s", what, when(plan.Oldest.DeadAt)); err != nil {
			return err
		}
	}
	op, err := ops.Plan(ctx, o.kind, s.who(), sel, plan)
	if err != nil {
		return cannot(err, "%s dead letters", o.kind)
	}
	op.To, op.Rate, op.Reason, op.Edit, op.KeepAttempts = o.to, o.rate.PerSecond, o.why, o.edits.patch, o.keep
	if plan.Count == 0 { // there is nothing to follow or to resume
		return errors.Join(s.operated(op), s.refusals(op, missingLetters(plan)))
	}
	if o.edits.editor {
		if err := s.editByHand(ctx, ops, sel.IDs[0]); err != nil {
			return err
		}
	}
	return s.carryOut(ctx, ops, op, missingLetters(plan))
}

func missingLetters(plan *operate.Plan) map[string]error {
	refused := map[string]error{}
	for _, id := range plan.Missing() {
		refused[id] = operate.MissingLetter(id)
	}
	return refused
}

// carryOut runs an operation in this process, and says how to go on where it
// does not end.
func (s *session) carryOut(ctx context.Context, ops *operate.Operations, op *operate.Operation,
	refused map[string]error) error {
	pace := ""
	if op.Rate > 0 {
		pace = fmt.Sprintf(", at most %g a second", op.Rate)
	}
	s.note("operation %s: %s of %s%s", op.ID, op.Kind, operate.Counted(op.Planned, "dead letter"), pace)
	p := s.progress("dead letters")
	r := &operate.Runner{Operations: ops, Who: s.who(), Progress: p.At}
	err := r.Run(ctx, op)
	p.End()
	maps.Copy(refused, r.Refused)
	if errors.Is(err, store.ErrConflict) && op.Status != operate.Failed {
		return cannot(err, "%s: operation %s", op.Kind, op.ID)
	}
	return errors.Join(s.operated(op), s.unfinished(op, err, refused))
}

// operationOutcome is what became of an operation, as JSON.
type operationOutcome struct {
	outcome
	OperationID string `json:"operation_id,omitempty"`
	Status      string `json:"status,omitempty"`
}

// operated prints what was done.
func (s *session) operated(op *operate.Operation) error {
	result := operationOutcome{outcome: outcome{Done: op.Done, Refused: op.Refusal, Reason: op.Reason}}
	if op.Runs > 0 {
		result.OperationID, result.Status = op.ID, op.Status
	}
	return s.one(result, func(w io.Writer) { fmt.Fprintf(w, "%d %s\n", op.Done, doneWords[op.Kind]) })
}

// unfinished is the error of an operation that did not do all.
func (s *session) unfinished(op *operate.Operation, err error, refused map[string]error) error {
	far := fmt.Sprintf("%d of %d %s", op.Done, op.Planned, doneWords[op.Kind])
	resume := "go on with `pawl operations resume " + op.ID + "`"
	switch {
	case err == nil:
		return s.refusals(op, refused)
	case errors.Is(err, operate.ErrCancelled):
		return &problem{code: exitPartly, what: "the operation ends here: " + far, err: err,
			next: "what is left stays dead; plan a new one for it"}
	case errors.Is(err, operate.ErrPaused):
		return &problem{code: exitUnfinished, what: "not everything is done: " + far, err: err, next: resume}
	}
	return &problem{code: exitUnfinished, what: "not everything is done: " + far, err: err,
		next: resume + ": what is done is not done twice"}
}

// refusals is the error of an operation in which some were refused.
func (s *session) refusals(op *operate.Operation, refused map[string]error) error {
	return refusedError(doneWords[op.Kind], op.Done, op.Refused, refused)
}

// mixedUp refuses a reason for a discard that looks as if it was meant to select:
// some of what is selected has it for its own reason, and some has not.
func mixedUp(ctx context.Context, d store.DeadLetters, sel operate.Selection, plan *operate.Plan, why string) error {
	if why == "" || len(sel.IDs) > 0 {
		return nil
	}
	f, n := sel.Filter, int64(0)
	f.Limit, f.Brief = 0, true
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "look at dead letters")
		}
		if strings.Contains(strings.ToLower(r.Reason), strings.ToLower(why)) {
			n++
		}
	}
	if n == 0 || n >= plan.Count {
		return nil
	}
	return usage("did you mean --matching? --reason does not select; if you meant it, word it differently",
		"%d of %d dead letters have %q in their own reason", n, plan.Count, why)
}

// describePlan tells what would be done.
func describePlan(w io.Writer, p *operate.Plan, verb string) {
	fmt.Fprintf(w, "would %s %s\n", verb, operate.Counted(p.Count, "dead letter"))
	for _, t := range p.Topics {
		fmt.Fprintf(w, "  %d of topic %s\n", t.Count, oneLine(t.Topic))
	}
	if p.Oldest != nil {
		fmt.Fprintf(w, "the oldest died at %s: %s %s\n", when(p.Oldest.DeadAt), p.Oldest.ID, firstLine(p.Oldest.Reason))
	}
	if p.Keys > 0 {
		fmt.Fprintf(w, "%d keys:\n", p.Keys)
	}
	for i, k := range p.PerKey {
		if i == 10 && len(p.PerKey) > 11 {
			fmt.Fprintf(w, "  … -o json has the first %d\n", len(p.PerKey))
			break
		}
		fmt.Fprintf(w, "  %d of %s (topic %s)\n", k.Count, cut(oneLine(k.Key), 60), k.Topic)
	}
	for i := range p.Edits {
		e := &p.Edits[i]
		fmt.Fprintf(w, "edit of %s:\n  before: %s\n", e.ID, cut(oneLine(e.Before), 500))
		if e.Error != "" {
			fmt.Fprintf(w, "  refused: %s\n", oneLine(e.Error))
			continue
		}
		fmt.Fprintf(w, "  after:  %s\n", cut(oneLine(e.After), 500))
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "mind: %s\n", oneLine(warning))
	}
}
