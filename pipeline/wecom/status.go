package wecom

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// accountRow is an account as `pawl wecom status` shows it.
type accountRow struct {
	ID            string     `json:"open_kfid"`
	CursorAge     *float64   `json:"cursor_age_seconds"` // null: it was never pulled to its end
	LastDoorbell  *time.Time `json:"last_doorbell_at"`
	LastPull      *time.Time `json:"last_pull_at"`
	Backlog       *int64     `json:"backlog"` // null: the store of the messages does not tell
	BudgetRefused int64      `json:"budget_refused"`
	TokenExpires  *time.Time `json:"token_expires_at"`
	State         string     `json:"state"` // running, behind, parked or paused
	Why           string     `json:"why,omitempty"`
}

// How many messages are looked at for the backlog, and for how long: the rest of the status waits for it.
const (
	maxBacklog  = 100_000
	backlogTime = 5 * time.Second
)

func runStatus(ctx context.Context, in *pipeline.Invocation) error {
	st, err := openSite(ctx, in)
	if err != nil {
		return err
	}
	messages := st.store
	if u := messagesURL(st.section.Section("messages")); u != "" {
		if messages, err = in.Open(ctx, u, true); err != nil {
			return err
		}
	}
	rows := []accountRow{}
	backlog, err := st.backlog(ctx, messages)
	if err != nil {
		_, _ = fmt.Fprintln(in.Stderr, "the backlog is not known:", err)
	}
	token, paused := at(st.client.token.expires(ctx)), st.paused(ctx)
	for id, a := range st.all(ctx) {
		row := accountRow{ID: id, LastDoorbell: at(a.LastDoorbell), LastPull: at(a.LastPull), TokenExpires: token,
			State: "running"}
		if !a.Fresh.IsZero() {
			row.CursorAge = new(time.Since(a.Fresh).Seconds())
		}
		if backlog != nil {
			row.Backlog = new(backlog[id])
		}
		if _, err := pipeline.ReadMark(ctx, st.marks, st.ledger.refusals, id, &row.BudgetRefused); err != nil {
			return err
		}
		switch {
		case a.Parked != "":
			row.State, row.Why = "parked", a.Parked
		case paused != "":
			row.State, row.Why = "paused", paused
		case a.Behind:
			row.State = "behind"
		}
		rows = append(rows, row)
	}
	now := time.Now()
	return in.Rows([]string{"ACCOUNT", "STATE", "CURSOR AGE", "LAST DOORBELL", "LAST PULL", "BACKLOG", "REFUSED",
		"WHY"}, rows, func(i int) []string {
		r, age, waiting := &rows[i], "-", "-"
		if r.Backlog != nil {
			waiting = strconv.FormatInt(*r.Backlog, 10)
		}
		if r.CursorAge != nil {
			age = time.Duration(*r.CursorAge * float64(time.Second)).Round(time.Second).String()
		}
		return []string{r.ID, r.State, age, ago(r.LastDoorbell, now), ago(r.LastPull, now),
			waiting, strconv.FormatInt(r.BudgetRefused, 10), r.Why}
	})
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func ago(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	return fmt.Sprint(now.Sub(*t).Round(time.Second), " ago")
}

// paused says why the pipeline is paused; empty: it is not.
func (st *site) paused(ctx context.Context) string {
	topics, ok := store.As[store.Topics](st.store)
	if !ok {
		return ""
	}
	stats, err := topics.Stats(ctx, st.name+"."+stagePull)
	if err != nil || len(stats) == 0 || stats[0].Paused == nil {
		return ""
	}
	return "paused: " + stats[0].Paused.Reason
}

// backlog counts the messages that are not handled yet, by account; nil: that is not known.
func (st *site) backlog(ctx context.Context, s store.Store) (map[string]int64, error) {
	look, ok := store.As[store.Inspector](s)
	if !ok {
		return nil, errors.New("the store of the messages does not list them")
	}
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()
	count := map[string]int64{}
	for r, err := range look.List(ctx, store.Filter{Topic: st.section.Section("messages").Text("topic"),
		Limit: maxBacklog}) {
		if err != nil {
			return nil, err
		}
		count[r.Headers[headerAccount]]++
	}
	return count, nil
}

// giveUp marks replies as failed that have become dead letters: the ledger only records that they were begun,
// because the policy decides when to stop.
func (st *site) giveUp(ctx context.Context, all []reply) error {
	dead, ok := store.As[store.DeadLetters](st.store)
	if !ok {
		return nil
	}
	waiting := map[string]int{}
	for i := range all {
		if all[i].State == pending {
			waiting[all[i].MsgID] = i
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	for d, err := range dead.Dead(ctx, store.DeadFilter{Topic: st.name + "." + stageReplies, Brief: true}) {
		if err != nil {
			return err
		}
		if i, ok := waiting[d.ID]; ok {
			all[i].State, all[i].Class = failed, cmp.Or(all[i].Class, classOf(d.Kind))
		}
	}
	return nil
}

// classOf is the class of replies that ended with a kind of failure.
func classOf(kind pawl.Kind) string {
	for _, row := range errcodes {
		if row.kind == kind {
			return row.class
		}
	}
	return "unknown"
}

// listReplies returns the replies in the ledger, and those that wait to be sent for the first time.
func (st *site) listReplies(ctx context.Context) ([]reply, error) {
	var all []reply
	seen := map[string]bool{}
	for m, err := range st.marks.ListMarks(ctx, st.ledger.replies, "") {
		if err != nil {
			return nil, err
		}
		var r reply
		if json.Unmarshal(m.Value, &r) == nil {
			all, seen[r.MsgID] = append(all, r), true
		}
	}
	look, ok := store.As[store.Inspector](st.store)
	if !ok {
		return all, nil
	}
	for rec, err := range look.List(ctx, store.Filter{Topic: st.name + "." + stageReplies}) {
		if err != nil {
			return nil, err
		}
		var t task
		if json.Unmarshal(rec.Body, &t) == nil && !seen[t.MsgID] {
			all = append(all, reply{MsgID: t.MsgID, MessageID: t.MessageID, Call: t.Call, Index: t.Index,
				User: t.User, OpenKfID: t.OpenKfID, State: pending})
		}
	}
	if err := st.giveUp(ctx, all); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b reply) int {
		return strings.Compare(a.User+"\x00"+a.MessageID, b.User+"\x00"+b.MessageID)
	})
	return all, nil
}
