package wecom

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/store"
)

// A session is handed over after the replies: WeCom takes none for a session that a person has. One that comes later
// is refused, and says so.
func TestATransferComesAfterTheReplies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answer := Answer{Replies: []json.RawMessage{textReply("re: 0"), textReply("re: 1")},
		Transfer: &Transfer{State: 3, Servicer: "zhangsan"}}
	r.daemon("a", HandlerFunc(func(_ context.Context, e Envelope) (Answer, error) {
		if strings.Contains(string(e.Content), "later") {
			return Answer{Replies: []json.RawMessage{textReply("too late")}}, nil
		}
		return answer, nil
	}), nil)
	r.sim.Say(sim.Account, "wm0", "a person, please")
	r.await("all calls are made", func() bool { return len(r.replies(r.site(), sent)) == 3 })
	r.exactly(1, 2)
	if n := r.sim.Counts()["kf/service_state/trans 0"]; n != 1 {
		t.Errorf("it was handed over %d times: %v", n, r.sim.Counts())
	}
	r.sim.Say(sim.Account, "wm0", "later")
	r.await("the reply is refused", func() bool { return len(r.replies(r.site(), refused)) == 1 })
	if one := r.replies(r.site(), refused)[0]; one.Class != "session_state" || one.Errcode != 95018 {
		t.Errorf("refused as %+v", one)
	}
	dead, _ := store.As[store.DeadLetters](r.store)
	r.await("it is a dead letter", func() bool {
		for d, err := range dead.Dead(t.Context(), store.DeadFilter{Topic: "kefu.replies"}) {
			if err == nil && d.Kind == KindSession {
				return true
			}
		}
		return false
	})
}

// Whether a transfer arrived whose answer was lost, the next attempt tells: the session is in that state already. The
// same answer to a first attempt is a refusal.
func TestATransferWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"lost": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bodies := make(chan map[string]any, 4)
			c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				var body map[string]any
				_ = json.NewDecoder(r.Body).Decode(&body)
				if bodies <- body; lost && len(bodies) == 1 {
					panic(http.ErrAbortHandler)
				}
				_, _ = w.Write([]byte(`{"errcode":95016,"errmsg":"not allowed"}`))
			})
			marks, _ := store.As[store.Shared](newRig(t).store, store.CanMarks)
			rp := &replier{client: c, ledger: newLedger(marks, "kefu"), ended: func(string, string) {}}
			e := &Envelope{MessageID: "m", ExternalUserID: "wm0", OpenKfID: "wk", Timestamp: time.Now().Unix()}
			all, err := (&Answer{Transfer: &Transfer{State: 3, Servicer: "zhangsan"}}).tasks(e, "")
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			text, _ := json.Marshal(&all[0])
			d := &pawl.Delivery{Message: pawl.Message{ID: all[0].MsgID, Body: text}}
			err = rp.Handle(t.Context(), d)
			if about := pawl.Describe(err); lost && about.Kind != KindAway || !lost && about.Kind != KindSession {
				t.Fatalf("the first attempt: %v, %v", about.Kind, err)
			}
			want := refused
			if lost {
				if err := rp.Handle(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				want = sent
			}
			if now, err := rp.ledger.reply(t.Context(), all[0].MsgID); err != nil || now.State != want ||
				now.Call != callTransfer {
				t.Errorf("%+v, %v", now, err)
			}
			if body := <-bodies; !maps.Equal(body, map[string]any{"open_kfid": "wk", "external_userid": "wm0",
				"service_state": 3.0, "servicer_userid": "zhangsan"}) {
				t.Errorf("it was asked for by %v", body)
			}
		})
	}
}
