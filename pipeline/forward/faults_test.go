package forward

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/forward/sim"
	"github.com/pawl-dev/pawl/store"
)

func TestAlbumsStayWholeAndInTheirPlace(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy})
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "before"})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Album: "a", Text: "part", Count: 3})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "after"})
	// of the same album, behind another message
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Album: "a", Text: "last"})
	r.gets(target, "before", "part 1", "part 2", "part 3", "last", "after")
	groups := map[string]int{}
	for _, m := range r.api.Truth(true).Messages {
		groups[m.Group]++
	}
	if len(groups) != 2 || groups[""] != 2 {
		t.Errorf("messages by album: %v", groups)
	}
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Album: "a", Text: "late"}) // too late: by itself, but not lost
	r.gets(target, "before", "part 1", "part 2", "part 3", "last", "after", "late")
}

// The process that took two parts of an album in died before the third one. Whoever handles them waits until
// another one has asked for the rest.
func TestAnAlbumStaysWholeWhenTheLeaderDies(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy})
	state, _ := store.As[store.Shared](r.store)
	now, err := state.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dead, _ := json.Marshal(leadRecord{Owner: "dead", Until: now.Add(2 * albumWait).UnixMilli()})
	if _, err := state.PutState(t.Context(), "forward/tg/leader", dead, 0, "dead"); err != nil {
		t.Fatal(err)
	}
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Album: "a", Text: "part", Count: 3})
	parts, err := newClient(r.url, "777:SECRET").updates(t.Context(), 0, 0)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%d updates, %v", len(parts), err)
	}
	for _, part := range parts[:2] {
		var u update
		if err := json.Unmarshal(part, &u); err != nil {
			t.Fatal(err)
		}
		if err := store.Send(t.Context(), r.store, pawl.Message{
			Topic: "tg.updates", Key: fmt.Append(nil, source), Body: part,
			Unique: pawl.Unique{Key: fmt.Sprintf("%d/%d", sim.BotID, u.ID), For: keepUpdates},
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.gets(target, "part 1", "part 2", "part 3")
	groups := map[string]int{}
	for _, m := range r.api.Truth(true).Messages {
		groups[m.Group]++
	}
	if len(groups) != 1 || groups[""] != 0 {
		t.Errorf("messages by album: %v", groups)
	}
}

// A record of the leader that is not JSON stops no process from leading.
func TestABrokenRecordOfTheLeader(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy})
	state, _ := store.As[store.Shared](r.store)
	if _, err := state.PutState(t.Context(), "forward/tg/leader", []byte("{"), 0, "test"); err != nil {
		t.Fatal(err)
	}
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "one"})
	r.start()
	r.gets(target, "one")
}

func TestEditsReachCopies(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy,
		Replace: []string{"foo=bar"}})
	r.rule(Rule{Source: Place{Chat: other}, Targets: []Place{{Chat: sim.Member}}})
	r.start()
	copied := r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "one foo"})[0]
	forwarded := r.api.Write(sim.Post{Chat: other, From: sim.Member, Text: "two"})[0]
	r.gets(target, "one bar")
	r.gets(sim.Member, "two")
	r.api.Write(sim.Post{Chat: other, From: sim.Member, Text: "two!", Edit: forwarded})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "never sent", Edit: 4711})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "one foo!", Edit: copied})
	r.await("the copy is edited", func() bool { return r.api.Truth(false).Edited == 1 })
	r.gets(target, "one bar!")
	r.gets(sim.Member, "two")
}

// TestNothingIsLeftOfAText: what a rule is to remove does not reach a copy, also where it is all of a text or a
// caption.
func TestNothingIsLeftOfAText(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy,
		Replace: []string{"secret.*="}})
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "secret 1"})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "secret 2", Photo: true})
	edited := r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "one, secret 3"})[0]
	r.gets(target, "", "one, ")
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "secret 5", Edit: edited})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "two"})
	r.gets(target, "", "one, ", "two")
	for letter, err := range r.store.(store.DeadLetters).Dead(t.Context(), store.DeadFilter{}) {
		t.Errorf("a dead letter: %v, %v", letter.Reason, err)
	}
	rule := r.rules().of(Place{Chat: source})
	const why = "not sent: what rule 1 replaces leaves nothing of the text"
	if o := judge(rule, &message{Text: "secret 6"}); o.Why != why {
		t.Errorf("the command says %q", o.Why)
	}
}

// TestAnswersThatAreNotTelegrams: what stands before Telegram refuses calls, or sends them elsewhere. No message is
// lost by that, no target is disabled, and the token goes nowhere else.
func TestAnswersThatAreNotTelegrams(t *testing.T) {
	for _, status := range []int{307, 400, 401, 403} {
		r := newRig(t, nil)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			t.Errorf("%d leads to %s, referred by %s", status, q.URL, q.Referer())
		}))
		t.Cleanup(elsewhere.Close)
		var refused, mended atomic.Bool
		before := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if mended.Load() || !strings.HasSuffix(q.URL.Path, "/forwardMessage") {
				r.api.ServeHTTP(w, q)
				return
			}
			refused.Store(true)
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, map[bool]string{true: `{"message":"no"}`, false: "<html>no"}[status == 403])
		}))
		t.Cleanup(before.Close)
		t.Cleanup(before.CloseClientConnections)
		r.url = before.URL
		r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
		r.start()
		r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "one"})
		r.await("it is refused", refused.Load)
		mended.Store(true)
		r.gets(target, "one")
		if rule := r.rules().of(Place{Chat: source}); len(rule.Disabled) > 0 {
			t.Errorf("%d: disabled are %v", status, rule.Disabled)
		}
	}
}

// What waits for a group when it becomes a supergroup, and what comes for it later, are in one lane: in order.
func TestAMovedGroupKeepsItsLane(t *testing.T) {
	r := &Rule{Source: Place{Chat: -1}, Targets: []Place{{Chat: -2, Thread: 5}}, Disabled: []Place{{Chat: -2}}}
	before := r.lane(r.Targets[0])
	for from, to := int64(-2), int64(-102); to > -400; from, to = to, to-100 { // twice
		r.move(from, to)
	}
	r.move(-1, -101)
	if r.Source.Chat != -101 || r.Targets[0] != (Place{-302, 5}) || !r.off(r.Targets[0]) {
		t.Errorf("the rule is %+v", r)
	}
	if got := r.lane(r.Targets[0]); got != before {
		t.Errorf("the lane was %q, and is %q", before, got)
	}
}

func TestAMovedGroupMovesItsRules(t *testing.T) {
	const moved = int64(-1000000099999)
	r := newRig(t, nil)
	byTarget := r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	bySource := r.rule(Rule{Source: Place{Chat: other}, Targets: []Place{{Chat: sim.Member}}})
	if err := r.api.Fault("moved", fmt.Sprintf("%d:%d", target, moved)); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "m", Count: 2})
	r.gets(moved, "m 1", "m 2")
	r.api.AddChat(sim.Chat{ID: moved - 1, Type: "supergroup"})
	r.api.Write(sim.Post{Chat: other, From: sim.Member, Extra: map[string]any{"migrate_to_chat_id": moved - 1}})
	r.api.Write(sim.Post{Chat: moved - 1, From: sim.Member, Extra: map[string]any{"migrate_from_chat_id": other}})
	r.api.Write(sim.Post{Chat: moved - 1, From: sim.Member, Text: "here"})
	r.await("the source has moved", func() bool { return r.rules().of(Place{Chat: moved - 1}) != nil })
	r.api.Write(sim.Post{Chat: moved - 1, From: sim.Member, Text: "there"})
	r.await("the new group is forwarded", func() bool { return slices.Contains(r.in(sim.Member), "there") })
	all := r.rules()
	a, _ := all.byID(byTarget.ID)
	b, _ := all.byID(bySource.ID)
	if a.Targets[0].Chat != moved || b.Source.Chat != moved-1 || all.of(Place{Chat: other}) != nil {
		t.Errorf("rules: %+v, %+v", a, b)
	}
}

func TestABlockedTargetIsDisabledAndToldOnce(t *testing.T) {
	r := newRig(t, nil)
	made := r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: sim.Member}, {Chat: target}}})
	if err := r.api.Fault("blocked", fmt.Sprint(sim.Member)); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "m", Count: 5})
	r.gets(target, "m 1", "m 2", "m 3", "m 4", "m 5")
	dead := func() (n int) {
		letters, _ := store.As[store.DeadLetters](r.store)
		for l, err := range letters.Dead(t.Context(), store.DeadFilter{}) {
			if err != nil || l.Kind != KindBlocked {
				t.Fatalf("dead letter %+v, %v", l, err)
			}
			n++
		}
		return n
	}
	r.await("five dead letters", func() bool { return dead() == 5 })
	r.await("the owner is told", func() bool { return len(r.in(sim.Admin)) == 1 })
	if told := r.in(sim.Admin)[0]; !strings.Contains(told, `"Bob" (2001)`) ||
		!strings.Contains(told, "bot was blocked") {
		t.Errorf("told %q", told)
	}
	rule, _ := r.rules().byID(made.ID)
	if !slices.Equal(rule.Disabled, []Place{{Chat: sim.Member}}) {
		t.Errorf("disabled: %v", rule.Disabled)
	}
	if calls := r.api.Truth(false).Calls["forwardMessage"]; calls != 6 {
		t.Errorf("%d calls: a disabled target was asked again", calls)
	}
}

// A 429 pauses its chat and nobody else; nothing is lost, and it is no failed attempt.
func TestA429PausesItsChat(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	if err := r.api.Fault("throttle", "0.7"); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "m", Count: 3})
	r.await("a 429", func() bool { return r.api.Truth(false).Calls["forwardMessage"] > r.api.Truth(false).Sent })
	if err := r.api.Fault("throttle", "0"); err != nil {
		t.Fatal(err)
	}
	r.gets(target, "m 1", "m 2", "m 3")
}

// Lost answers and errors of the server are repeated, in order; the only duplicates are those of lost answers.
func TestUnknownOutcomesAreRepeated(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	r.start()
	r.await("it polls", func() bool { return r.api.Truth(false).Calls["getUpdates"] > 0 })
	if err := r.api.Fault("drop", "1"); err != nil {
		t.Fatal(err)
	}
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "m", Count: 2})
	r.await("a lost answer", func() bool { return r.api.Truth(false).Sent > 0 })
	if err := r.api.Fault("drop", "0"); err != nil {
		t.Fatal(err)
	}
	r.await("both are there", func() bool { return slices.Contains(r.in(target), "m 2") })
	truth := r.api.Truth(false)
	if truth.Twice == 0 || truth.Sent != 2+truth.Twice {
		t.Errorf("sent %d, %d of them twice", truth.Sent, truth.Twice)
	}
}

func TestWebhook(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	r := newRig(t, map[string]any{"updates": updatesWebhook, "listen": address, "secret_token": "s3cret",
		"webhook_url": "http://" + address + "/telegram"})
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "m", Count: 3})
	r.gets(target, "m 1", "m 2", "m 3")
	for secret, want := range map[string]int{"": 403, "wrong": 403, "s3cret": 400} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/telegram",
			strings.NewReader("no json"))
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("secret %q: %d, want %d", secret, resp.StatusCode, want)
		}
	}
}

// When the leader stops, another process goes on, with nothing lost and nothing twice.
func TestRollingRestart(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	a := r.start()
	b := r.start()
	for i := range 3 {
		r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: fmt.Sprint(i, ":"), Count: 50})
		a.stop()
		<-a.done
		a, b = b, r.start()
	}
	defer b.stop()
	r.await("all are there", func() bool { return r.api.Truth(false).Sent >= 150 })
	if truth := r.api.Truth(false); truth.Sent != 150 || truth.Twice != 0 {
		t.Errorf("sent %d, %d twice", truth.Sent, truth.Twice)
	}
	if got := r.in(target); !slices.IsSortedFunc(got, func(a,
		b string) int {
		return strings.Compare(pad(a), pad(b))
	}) {
		t.Errorf("out of order: %q", got)
	}
}

// pad makes "1: 7" sort before "1: 10".
func pad(s string) string {
	round, n, _ := strings.Cut(s, ": ")
	return fmt.Sprintf("%s %4s", round, n)
}

func TestTheTokenIsInNoError(t *testing.T) {
	r := newRig(t, nil)
	for _, base := range []string{"http://127.0.0.1:1", r.url, "http://[::1"} {
		c := newClient(base, "777:VERYSECRET")
		err := c.call(t.Context(), time.Second, "no/such\x00method", struct{}{}, nil)
		if err == nil || strings.Contains(err.Error(), "VERYSECRET") {
			t.Errorf("%s: %v", base, err)
		}
	}
	if err := r.api.Fault("revoked", "true"); err != nil {
		t.Fatal(err)
	}
	if _, err := newClient(r.url, "777:VERYSECRET").me(t.Context()); !refusedToken(err) ||
		strings.Contains(err.Error(), "VERYSECRET") {
		t.Errorf("revoked: %v", err)
	}
}

// What Telegram asks to wait counts for an hour at most: more is a mistake, and would keep the bot deaf.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]time.Duration{
		"7": 7 * time.Second, "999999999": time.Hour, "9223372036854775807": time.Hour,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"ok":false,"error_code":429,"parameters":{"retry_after":` + asked + `}}`))
		}))
		_, err := newClient(server.URL, "777:SECRET").updates(t.Context(), 0, 0)
		server.Close()
		if e := asAPI(err); e == nil || e.RetryAfter != want {
			t.Errorf("%s: %v, want a wait of %v", asked, err, want)
		}
	}
}
