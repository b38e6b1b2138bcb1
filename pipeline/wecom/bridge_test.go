package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/store"
)

func TestEveryUserIsAnsweredInOrderAndOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.daemon("a", echo(nil), nil)
	r.talk(20, 10)
	r.exactly(20, 10)
	if n := r.sim.Counts()["gettoken 0"]; n != 1 {
		t.Errorf("the access token was fetched %d times", n)
	}
}

func TestEveryUserIsAnsweredOverKafka(t *testing.T) {
	brokers := os.Getenv("PAWL_TEST_KAFKA")
	if brokers == "" {
		t.Skip("PAWL_TEST_KAFKA is not set")
	}
	t.Parallel()
	r := newRig(t)
	r.messages = fmt.Sprintf("kafka://%s?prefix=wecom-%s.", brokers, pawl.NewID())
	r.daemon("a", echo(nil), nil)
	r.talk(10, 5)
	r.exactly(10, 5)
}

// All of it at once: what rings is repeated, late or lost, tokens end early, pages are empty, WeCom is busy and answers
// get lost.
func TestFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, value := range map[string]string{
		"callback_repeat": "3", "callback_shuffle": "50", "callback_lost": "0.3", "token_early": "40",
		"empty_pages": "0.3", "short_pages": "7",
		"busy": "0.05", "send_lost": "0.1", "msgtoken_early": "0.2", "concurrency": "12",
	} {
		if err := r.sim.Fault(name, value); err != nil {
			t.Fatal(err)
		}
	}
	r.daemon("a", echo(nil), nil)
	r.talk(10, 10)
	r.exactly(10, 10)
}

// Two daemons are killed at random moments, again and again.
func TestKilledDaemonsLoseNothingAndRepeatNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.sim.Fault("send_delay", "5"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			_, kill := r.daemon(fmt.Sprint("a", i), echo(nil), nil)
			select {
			case <-done:
				kill()
				return
			case <-time.After(time.Duration(200+rand.IntN(400)) * time.Millisecond):
				if i < 3 {
					kill()
					continue
				}
				<-done
				kill()
				return
			}
		}
	})
	r.talk(10, 5)
	close(done)
	wg.Wait()
	r.exactly(10, 5)
}

func TestMoreThanFiveRepliesAreRefusedBeforeTheCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.daemon("a", HandlerFunc(func(context.Context, Envelope) (Answer, error) {
		var a Answer
		for n := range 7 {
			a.Replies = append(a.Replies, textReply(fmt.Sprint(n)))
		}
		return a, nil
	}), nil)
	r.sim.Say(sim.Account, "wm0", "hi")
	st := r.site()
	r.await("two are refused", func() bool { return len(r.replies(st, refused)) == 2 })
	if got := r.answered()["wm0"]; fmt.Sprint(got) != "[0 1 2 3 4]" {
		t.Errorf("sent %v", got)
	}
	for _, one := range r.replies(st, refused) {
		if one.Class != "budget_used" {
			t.Errorf("refused as %+v", one)
		}
	}
	if n := r.sim.Counts()["kf/send_msg 95001"]; n != 0 {
		t.Errorf("WeCom refused %d calls", n)
	}
	dead, _ := store.As[store.DeadLetters](r.store)
	for d, err := range dead.Dead(t.Context(), store.DeadFilter{}) {
		if err != nil || d.Kind != KindBudget {
			t.Errorf("the dead letter is %s, %v", d.Kind, err)
		}
	}
}

func (r *rig) site() *site {
	marks, _ := store.As[store.Shared](r.store, store.CanMarks)
	return &site{name: "kefu", store: r.store, marks: marks, ledger: newLedger(marks, "kefu"),
		accounts: accountsOf(marks, "kefu")}
}

func (r *rig) replies(st *site, state string) (rows []reply) {
	all, err := st.listReplies(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range all {
		if one.State == state {
			rows = append(rows, one)
		}
	}
	return rows
}

func TestWhatWasTakenAndDidNotArriveIsFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.sim.Fault("send_fail", "1"); err != nil {
		t.Fatal(err)
	}
	r.daemon("a", echo(nil), nil)
	r.sim.Say(sim.Account, "wm0", "0")
	r.await("it is failed", func() bool { return len(r.replies(r.site(), failed)) == 1 })
	if one := r.replies(r.site(), failed)[0]; one.Class != "contact" || one.User != "wm0" {
		t.Errorf("%+v", one)
	}
}

// A mistake in the configuration pauses the pipeline; what waits goes out afterwards.
func TestAMistakeOfTheConfigurationPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.sim.Fault("bad_secret", "1"); err != nil {
		t.Fatal(err)
	}
	r.daemon("a", echo(nil), nil)
	r.await("it is paused", func() bool { return r.paused() != "" })
	if !strings.Contains(r.paused(), "40001") {
		t.Errorf("paused because of %q", r.paused())
	}
	r.sim.Say(sim.Account, "wm0", "0")
	if n := r.sim.Counts()["gettoken 40001"]; n > 2 {
		t.Errorf("the wrong secret was tried %d times", n)
	}
	if err := r.sim.Fault("bad_secret", "0"); err != nil {
		t.Fatal(err)
	}
	r.resumed("it is answered", func() bool { return len(r.sim.Sent()) == 1 })
}

// Codes that only a person can do something about are not tried again and again, and the reply that waits for that
// person goes out once.
func TestAReplyWaitsUntilTheConfigurationIsMended(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"48002", "60020"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			answer := echo(nil)
			r.daemon("a", HandlerFunc(func(ctx context.Context, e Envelope) (Answer, error) {
				if err := r.sim.Fault("errcode", code); err != nil { // the message is pulled: now nothing works
					return Answer{}, err
				}
				return answer.(HandlerFunc)(ctx, e)
			}), nil)
			r.sim.Say(sim.Account, "wm0", "0")
			r.await("it is paused, and the reply waits", func() bool {
				return strings.Contains(r.paused(), code) && len(r.replies(r.site(), pending)) == 1
			})
			calls := 0
			for api, n := range r.sim.Counts() {
				if strings.HasSuffix(api, " "+code) {
					calls += n
				}
			}
			if calls == 0 || calls > 3 { // sync_msg, account/list and send_msg may each have been under way
				t.Errorf("%d calls were answered by %s: %v", calls, code, r.sim.Counts())
			}
			if err := r.sim.Fault("errcode", "0"); err != nil {
				t.Fatal(err)
			}
			r.resumed("it is sent", func() bool { return len(r.replies(r.site(), sent)) == 1 })
			r.exactly(1, 1)
		})
	}
}

// A pipeline that goes on after a pause is not degraded any more, whether there are messages or not.
func TestACallThatSucceedsEndsAPause(t *testing.T) {
	b := &bridge{figures: newFigures("kefu"), client: &client{}, halted: "40001"}
	b.called("gettoken", "ok", 0)
	if b.health(t.Context()).Degraded == "" {
		t.Error("an access token shows nothing")
	}
	b.called("kf/sync_msg", "ok", 0)
	if why := b.health(t.Context()).Degraded; why != "" {
		t.Errorf("still degraded: %s", why)
	}
}

func TestUnknownTypesAndEventsPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	seen := map[string]Envelope{}
	r.daemon("a", HandlerFunc(func(_ context.Context, e Envelope) (Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[e.MsgType] = e
		if e.MsgType == typeEvent {
			return Answer{Welcome: textReply("welcome")}, nil
		}
		return Answer{}, nil
	}), nil)
	post := func(body string) {
		t.Helper()
		if err := postJSON(r.api+"/control/event", body); err != nil {
			t.Fatal(err)
		}
	}
	post(`{"external_userid":"wm9","origin":3,"msgtype":"hologram","hologram":{"id":12345678901234567890,"n":1.50}}`)
	post(
		`{"origin":5,"external_userid":"wm9","servicer_userid":"bob","msgtype":"text","text":{"content":"by a person"}}`)
	post(
		`{"origin":4,"msgtype":"event","event":{"event_type":"enter_session","open_kfid":"wk-sim-1","external_userid":"wm9"}}`)
	r.await("the welcome is sent", func() bool { return len(r.sim.Sent()) == 1 })
	mu.Lock()
	defer mu.Unlock()
	odd := seen["hologram"]
	if odd.ExternalUserID != "wm9" || odd.OpenKfID != sim.Account || odd.Timestamp == 0 ||
		!strings.Contains(string(odd.Content), `"hologram":{"id":12345678901234567890,"n":1.50}`) {
		t.Errorf("the unknown type came as %+v", odd)
	}
	if _, person := seen["text"]; person {
		t.Error("a message of a person was handed to the handler")
	}
	if e := seen[typeEvent]; e.ExternalUserID != "wm9" || e.OpenKfID != sim.Account {
		t.Errorf("the event came as %+v", e)
	}
}

func TestNumbersOfContentAreKept(t *testing.T) {
	it, err := readItem(
		json.RawMessage(
			`{"msgid":"m","external_userid":"u","send_time":1,"x":12345678901234567890,"y":1.50,"t":"<b>&"}`), "wk")
	if err != nil {
		t.Fatal(err)
	}
	m, err := it.message("topic")
	if err != nil || !strings.Contains(string(m.Body), `"x":12345678901234567890,"y":1.50,"t":"<b>&"`) {
		t.Errorf("%s, %v", m.Body, err)
	}
	if m.Headers[headerID] != "m" || string(m.Key) != "u" || m.Headers[headerAccount] != "wk" {
		t.Errorf("%+v", m)
	}
}

// A page whose store is away stays where it is: the cursor does not move.
func TestTheCursorWaitsForTheStore(t *testing.T) {
	marks, _ := store.As[store.Shared](newRig(t).store, store.CanMarks)
	away := &awayStore{}
	in := &inbox{topic: "t", store: away, home: away, ledger: newLedger(marks, "n"), stored: func(string, time.Duration) {},
		failed: func(error) {}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, pawl.ErrLeaseLost)
	defer cancel()
	err := in.take(ctx, "wk",
		[]json.RawMessage{json.RawMessage(`{"msgid":"m","external_userid":"u","origin":3,"msgtype":"text"}`)})
	if !errors.Is(err, pawl.ErrLeaseLost) || !errors.Is(err, store.ErrUnavailable) || away.calls < 2 {
		t.Errorf("%d calls, %v", away.calls, err)
	}
}

// What the store of the messages never takes becomes a dead letter, and the page goes on.
func TestARefusedMessageIsADeadLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	marks, _ := store.As[store.Shared](r.store, store.CanMarks)
	in := &inbox{topic: "t", store: pickyStore{Store: r.store}, home: r.store, ledger: newLedger(marks, "n"),
		stored: func(string, time.Duration) {}, failed: func(error) {}}
	for range 2 { // the page may come again
		err := in.take(t.Context(), "wk",
			[]json.RawMessage{json.RawMessage(`{"msgid":"m","external_userid":"u","origin":3,"msgtype":"text"}`)})
		if err != nil {
			t.Fatal(err)
		}
	}
	dead, _ := store.As[store.DeadLetters](r.store)
	n := 0
	for d, err := range dead.Dead(t.Context(), store.DeadFilter{}) {
		if n++; err != nil || d.ID != "m" || d.Topic != "t" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// pickyStore refuses every message.
type pickyStore struct{ store.Store }

func (pickyStore) Append(_ context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return nil, &pawl.InvalidError{}
}

type awayStore struct {
	store.Store
	calls int
}

func (a *awayStore) Append(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error) {
	a.calls++
	return nil, &store.Error{Op: "append", Code: store.ErrUnavailable}
}

// A reply that was begun and then given up by the policy is not pending any more.
func TestAReplyThatIsGivenUpIsFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	st := r.site()
	one := reply{MsgID: "r1", MessageID: "m1", User: "wm0", OpenKfID: sim.Account, State: pending, Class: "busy",
		Errcode: -1, Attempts: 3, Open: true}
	if put, err := st.ledger.put(t.Context(), &one); err != nil || !put {
		t.Fatal(put, err)
	}
	if got := r.replies(st, pending); len(got) != 1 {
		t.Fatalf("before it is given up: %+v", got)
	}
	dead, _ := store.As[store.DeadLetters](r.store)
	letter := store.Record{Message: pawl.Message{ID: "r1", Topic: "kefu.replies", Body: []byte("{}")},
		State: store.IsDead, Kind: KindBusy, EnqueuedAt: time.Now(), DeadAt: time.Now()}
	if refused, err := dead.Import(t.Context(), letter); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if got := r.replies(st, failed); len(got) != 1 || got[0].Class != "busy" || got[0].Errcode != -1 {
		t.Errorf("%+v", got)
	}
}

// The fallback has the messages ten seconds after brokers stop answering, unless the URL says otherwise.
func TestTheFallbackIsNotWaitedForLong(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://b:1":              "&patience=7s",
		"kafka://b:1?patience=30s": "?patience=30s&",
	} {
		m := sub("messages", map[string]any{"store": url, "fallback": "sqlite:f.db"})
		if got := messagesURL(m); !strings.Contains(got, want) || strings.Count(got, "patience") != 1 {
			t.Errorf("%s becomes %s", url, got)
		}
	}
}
