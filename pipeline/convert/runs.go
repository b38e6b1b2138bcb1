package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// runsPrefix begins the keys of the states of runs: one for each folder of outputs.
const runsPrefix = "convert/"

// States of a run.
const (
	running     = "running"
	done        = "done"
	interrupted = "interrupted"
)

// runState is what the store knows of the last run to a folder.
type runState struct {
	Out   string `json:"out"`
	State string `json:"state"`
	Limit int    `json:"limit"`  // requests, or conversions, at once
	InUse int64  `json:"in_use"` // of these
	Summary
	WrittenAt time.Time `json:"written_at"`
}

// silentFor is how old the state of a run may be before the run counts as killed.
const silentFor = 30 * time.Second

// note writes how the run stands, for [runsCommand].
func (r *run) note(state string) {
	value, err := json.Marshal(runState{Out: r.out, State: state, Limit: r.window(), InUse: r.inUse(),
		Summary: r.summary()})
	sum := sha256.Sum256([]byte(r.out))
	if err == nil {
		key := runsPrefix + hex.EncodeToString(sum[:])
		_, err = r.marks.PutState(context.Background(), key, value, store.AnyVersion, r.id)
	}
	if err != nil {
		r.log.Warn("the state of the run was not written", "error", err)
	}
}

func runsCommand() pipeline.Command {
	return pipeline.Command{
		Use: "runs", Short: "List runs: how far each is, how fast, and what it has cost",
		Long: `Lists the last run into each folder. A run keeps its state in DIR/.pawl/convert.db, or in
the store that it was given with --store: give the same store here.`,
		Example: "  pawl convert runs --store sqlite:markdown/.pawl/convert.db", Effect: pipeline.Looks, Run: listRuns,
	}
}

func listRuns(ctx context.Context, in *pipeline.Invocation) error {
	s, err := in.Open(ctx, "", true)
	if err != nil {
		return err
	}
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return &store.Error{Op: "list runs", Code: store.ErrUnsupported}
	}
	now, err := entries.Clock(ctx)
	if err != nil {
		return err
	}
	rows := []runState{}
	for e, err := range entries.ListState(ctx, runsPrefix, 0) {
		if err != nil {
			return err
		}
		var r runState
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return err
		}
		if r.WrittenAt = e.At; r.State == running && now.Sub(e.At) > silentFor {
			r.State, r.InUse = interrupted, 0
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b runState) int {
		return cmp.Or(b.WrittenAt.Compare(a.WrittenAt), cmp.Compare(a.Out, b.Out))
	})
	columns := []string{"FOLDER", "STATE", ">FILES", ">DONE", ">FAILED", ">AT ONCE", ">A MINUTE", ">COST", "AS OF"}
	return in.Rows(columns, rows, func(i int) []string {
		r := &rows[i]
		return []string{r.Out, r.State, fmt.Sprint(r.Files), fmt.Sprint(r.Completed + r.Unchanged),
			fmt.Sprint(r.Failed + r.PermanentFailure), fmt.Sprintf("%d / %d", r.InUse, r.Limit),
			fmt.Sprintf("%.0f", r.DocumentsPerMinute), fmt.Sprintf("$%.4f", r.CostUSD),
			r.WrittenAt.UTC().Format("2006-01-02 15:04:05Z")}
	})
}
