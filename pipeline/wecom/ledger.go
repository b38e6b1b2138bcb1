package wecom

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

const (
	budget     = 5              // messages that may be sent since the customer's last one
	windowLife = 48 * time.Hour // of the customer's last message
	// How long the ledger remembers. WeCom returns messages of three days.
	windowKept = windowLife + time.Hour
	replyKept  = 14 * 24 * time.Hour
)

// ledger keeps what was sent, and what may still be sent.
type ledger struct {
	marks store.Shared
	// Scopes: windows of users, replies, refusals by account.
	windows, replies, refusals string
	now                        func() time.Time
}

func newLedger(m store.Shared, name string) *ledger {
	return &ledger{
		marks: m, windows: name + ".windows", replies: name + ".replies", refusals: name + ".refusals", now: time.Now,
	}
}

// window is the newest message of a customer.
type window struct {
	MsgID    string `json:"msgid"`
	SendTime int64  `json:"send_time"`
}

// spent are the replies that were sent since a message of a customer, one that may have been sent included.
type spent struct {
	Since string   `json:"since"`
	Sent  []string `json:"sent"`
}

// reply is a call that answers, as the ledger keeps it and `pawl wecom replies ls` shows it.
type reply struct {
	MsgID     string `json:"msgid"`
	MessageID string `json:"message_id"`
	Call      string `json:"call"` // reply, welcome or transfer
	Index     int    `json:"index"`
	User      string `json:"user"`
	OpenKfID  string `json:"open_kfid"`
	State     string `json:"state"`
	Class     string `json:"class"`
	Errcode   int    `json:"errcode"`
	Attempts  int    `json:"attempts"`
	// Open tells that a call was begun whose outcome is not known.
	Open bool `json:"open,omitempty"`
	// Window is the message of the customer in whose window that call was begun.
	Window string `json:"window,omitempty"`

	version int64
}

// The states of a reply.
const (
	pending = "pending"
	sent    = "sent"
	refused = "refused"
	failed  = "failed"
)

func windowKey(account, user string) string { return "in/" + account + "/" + user }
func spentKey(account, user string) string  { return "out/" + account + "/" + user }

// pulled records the newest message of every customer, and replies that did not arrive.
func (l *ledger) pulled(ctx context.Context, items []item) error {
	newest := map[string]window{}
	for i := range items {
		it := &items[i]
		if it.Origin == originCustomer && it.User != "" && it.MsgType != typeEvent {
			key := string(fitKey(windowKey(it.Account, it.User)))
			if w, ok := newest[key]; !ok || it.SendTime >= w.SendTime {
				newest[key] = window{MsgID: it.MsgID, SendTime: it.SendTime}
			}
		}
	}
	if err := l.open(ctx, newest); err != nil {
		return err
	}
	for i := range items {
		if e := &items[i].Event; e.Type == "msg_send_fail" && e.FailMsgID != "" {
			if err := l.notDelivered(ctx, e.FailMsgID, e.FailType); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *ledger) open(ctx context.Context, newest map[string]window) error {
	if len(newest) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(newest))
	have, err := l.marks.GetMarks(ctx, l.windows, keys...)
	if err != nil {
		return err
	}
	var put []pawl.Mark
	for _, key := range keys {
		var w window
		if json.Unmarshal(have[key].Value, &w) == nil && w.SendTime > newest[key].SendTime {
			continue
		}
		text, err := json.Marshal(newest[key])
		if err != nil {
			return err
		}
		put = append(put, pawl.Mark{Scope: l.windows, Key: key, Value: text, For: windowKept, If: pawl.AnyVersion})
	}
	_, err = l.marks.PutMarks(ctx, put...)
	return err
}

// notDelivered marks a reply that WeCom took, but did not deliver.
func (l *ledger) notDelivered(ctx context.Context, msgID string, failType int) error {
	for {
		r, err := l.reply(ctx, msgID)
		if err != nil || r.version == 0 || r.State == failed {
			return err // it is not one of ours, or already marked
		}
		r.State, r.Class, r.Open = failed, cmp.Or(failClasses[failType], "unknown"), false
		put, err := l.put(ctx, &r)
		if err != nil || put {
			return err
		}
	}
}

// reply returns the entry of a reply; its version is 0 if there is none.
func (l *ledger) reply(ctx context.Context, msgID string) (r reply, err error) {
	r.version, err = pipeline.ReadMark(ctx, l.marks, l.replies, msgID, &r)
	return r, err
}

// put stores a reply, with other marks, unless another process has changed it since it was read.
func (l *ledger) put(ctx context.Context, r *reply, others ...pawl.Mark) (bool, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	mark := pawl.Mark{Scope: l.replies, Key: r.MsgID, Value: text, For: replyKept, If: r.version}
	receipts, err := l.marks.PutMarks(ctx, append(others, mark)...)
	if err != nil {
		return false, err
	}
	last := receipts[len(receipts)-1]
	if last.Err != nil {
		return false, last.Err
	}
	if last.Put {
		r.version = last.Version
	}
	return last.Put, nil
}

// allowance is what may be sent to a user.
type allowance struct {
	window window // its MsgID is empty if no message of the user is known
	spent  spent
	key    string
}

func (l *ledger) allowance(ctx context.Context, account, user string) (a allowance, err error) {
	in, out := string(fitKey(windowKey(account, user))), string(fitKey(spentKey(account, user)))
	marks, err := l.marks.GetMarks(ctx, l.windows, in, out)
	if err != nil {
		return a, err
	}
	a.key = out
	_ = json.Unmarshal(marks[in].Value, &a.window)
	_ = json.Unmarshal(marks[out].Value, &a.spent)
	if a.spent.Since != a.window.MsgID {
		a.spent = spent{Since: a.window.MsgID}
	}
	return a, nil
}

// refuses says why a reply must not be sent; nil if it may.
func (a *allowance) refuses(msgID string, now time.Time) *errcode {
	if a.window.MsgID == "" || now.Sub(time.Unix(a.window.SendTime, 0)) > windowLife {
		return new(rowOf(95002))
	}
	if len(a.spent.Sent) >= budget && !slices.Contains(a.spent.Sent, msgID) {
		return new(rowOf(95001))
	}
	return nil
}

// spend is the mark by which a reply counts; refund that by which it does not any more.
func (l *ledger) spend(a *allowance, msgID string) pawl.Mark {
	if !slices.Contains(a.spent.Sent, msgID) {
		a.spent.Sent = append(a.spent.Sent, msgID)
	}
	return l.spentMark(a)
}

func (l *ledger) refund(a *allowance, msgID string) pawl.Mark {
	a.spent.Sent = slices.DeleteFunc(a.spent.Sent, func(id string) bool { return id == msgID })
	return l.spentMark(a)
}

func (l *ledger) spentMark(a *allowance) pawl.Mark {
	text, _ := json.Marshal(a.spent) //nolint:errchkjson // texts
	return pawl.Mark{Scope: l.windows, Key: a.key, Value: text, For: windowKept, If: pawl.AnyVersion}
}

// refusedOne counts a reply that was refused before it was sent.
func (l *ledger) refusedOne(ctx context.Context, account string) error {
	for {
		var n int64
		version, err := pipeline.ReadMark(ctx, l.marks, l.refusals, account, &n)
		if err != nil {
			return err
		}
		put, err := pipeline.WriteMark(ctx, l.marks, pawl.Mark{Scope: l.refusals, Key: account, If: version}, n+1)
		if err != nil || put.Put {
			return err
		}
	}
}
