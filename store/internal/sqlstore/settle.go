package sqlstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Run is the settlements of a batch that concern one run: their indexes in the
// batch, in the order of the lane.
type Run struct {
	Lane, Fence int64
	Items       []int
}

// ByRun groups what is to be settled by run, without what was refused already.
// Runs come by lane, so that whoever locks lanes locks them in one order.
func ByRun(items []store.Settlement, refused []store.Refusal) []Run {
	bad := make(map[int]bool, len(refused))
	for _, r := range refused {
		bad[r.Index] = true
	}
	order := make([]int, 0, len(items))
	for i := range items {
		if !bad[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := items[a].Token, items[b].Token
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Fence, y.Fence), cmp.Compare(x.Seq, y.Seq))
	})
	var runs []Run
	for n, i := range order {
		t := items[i].Token
		if last := len(runs) - 1; last >= 0 && runs[last].Lane == t.Lane && runs[last].Fence == t.Fence {
			runs[last].Items = order[n-len(runs[last].Items) : n+1]
			continue
		}
		runs = append(runs, Run{Lane: t.Lane, Fence: t.Fence, Items: order[n : n+1]})
	}
	return runs
}

// SortRefusals puts refusals into the order of the batch.
func SortRefusals(refused []store.Refusal) []store.Refusal {
	slices.SortFunc(refused, func(a, b store.Refusal) int { return cmp.Compare(a.Index, b.Index) })
	return refused
}

// MarkThrottled is contained in the row of a throttled attempt, and in no other.
const MarkThrottled = `"throttled":true`

// RescuedAttempt is the record of a lease that ended unsettled, and the reason
// to go with it.
func RescuedAttempt(attempts int, owner string, started, until, hard time.Time) store.Attempt {
	why := "lease ended unsettled"
	if !until.Before(hard) {
		why = "hard deadline passed unsettled"
	}
	return store.Attempt{
		Attempt: attempts, StartedAt: started, EndedAt: until, Worker: owner,
		Kind: string(pawl.KindRescue), Error: why, Action: "rescue",
	}
}

// EncodeAttempt makes the row of an attempt.
func EncodeAttempt(a store.Attempt) []byte {
	b, _ := json.Marshal(a) // texts and times of this century always marshal
	return b
}

// DecodeAttempt is the inverse of EncodeAttempt.
func DecodeAttempt(b []byte) (a store.Attempt, err error) {
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("decode attempt: %w", err)
	}
	return a, nil
}
