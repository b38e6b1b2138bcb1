package wecom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/memory"
)

// spoken is a service that answers sync_msg by each of these texts in turn, and by the last one from then on.
type spoken struct {
	answers []string
	calls   int
}

// RoundTrip implements http.RoundTripper.
func (s *spoken) RoundTrip(r *http.Request) (*http.Response, error) {
	text := `{"errcode":0,"access_token":"t","expires_in":7200}`
	if strings.HasSuffix(r.URL.Path, "/sync_msg") {
		text = s.answers[min(s.calls, len(s.answers)-1)]
		s.calls++
	}
	if text == "" {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))},
		nil
}

func pageOf(n, more int) string {
	item := fmt.Sprintf(`{"msgid":"m%d","external_userid":"wm1","origin":3,"msgtype":"text","send_time":1}`, n)
	return fmt.Sprintf(`{"errcode":0,"next_cursor":"c%d","has_more":%d,"msg_list":[%s]}`, n, more, item)
}

const tooBusy = `{"errcode":-1,"errmsg":"system busy"}`

// pullOf makes one attempt at pulling an account, and returns the doorbells that it left.
func pullOf(t *testing.T, service *spoken) (rang []doorbell, err error) {
	st := memory.New(memory.Config{})
	defer func() { _ = st.Close() }()
	c := newClient("http://wecom", "ww", "hush", st, "kefu", func(string, string, time.Duration) {})
	c.http.Transport = service
	p := &puller{
		client: c, accounts: accountsOf(st, "kefu"), log: slog.New(slog.DiscardHandler),
		inbox: &inbox{topic: "t", store: st, home: st, ledger: newLedger(st, "kefu"), stored: func(string, time.Duration) {}},
		ring:  func(_ context.Context, b doorbell) error { rang = append(rang, b); return nil },
		token: func(string) string { return "" }, refused: func(string, string) {},
	}
	d := &pawl.Delivery{Message: pawl.Message{Body: []byte(`{"account":"wk1","token":"ENC"}`)}, EnqueuedAt: time.Now()}
	err = p.Handle(t.Context(), d)
	return rang, err
}

// A pull that got on before WeCom gave no answer goes on by a doorbell of its own. Its attempts would be counted on
// otherwise, and the backoff would grow although every attempt stores pages.
func TestAPullThatGotOnBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rang, err := pullOf(t, &spoken{answers: []string{pageOf(1, 1), ""}})
		if err != nil || len(rang) != 1 || rang[0] != (doorbell{Account: "wk1", Token: "ENC"}) {
			t.Errorf("after a page: %v, rang %v", err, rang)
		}
		rang, err = pullOf(t, &spoken{answers: []string{""}})
		if pawl.Describe(err).Kind != KindAway || len(rang) != 0 {
			t.Errorf("without a page: %v, rang %v", err, rang)
		}
	})
}

// A pull without a token gives its lane back after some pages: a doorbell that brings a token does not wait for it.
func TestAPullWithoutATokenGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := `{"errcode":95007,"errmsg":"invalid token"}`
		pages := []string{expired}
		for n := range 50 {
			pages = append(pages, pageOf(n, 1))
		}
		service, began := &spoken{answers: pages}, time.Now()
		rang, err := pullOf(t, service)
		want := doorbell{Account: "wk1", Poll: true, after: freePages * slowPage}
		if err != nil || len(rang) != 1 || rang[0] != want || service.calls != 1+freePages ||
			time.Since(began) > slowPage {
			t.Errorf("%v after %v and %d calls, rang %+v", err, time.Since(began), service.calls, rang)
		}
	})
}

// A token that comes while an account is pulled without one serves the next page, until WeCom refuses it.
func TestAPullTakesTheNewestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		defer func() { _ = st.Close() }()
		c := newClient("http://wecom", "ww", "hush", st, "kefu", func(string, string, time.Duration) {})
		expired := `{"errcode":95007,"errmsg":"invalid token"}`
		service := &spoken{answers: []string{pageOf(1, 1), pageOf(2, 1), pageOf(3, 1), expired, pageOf(4, 0)}}
		c.http.Transport = service
		b := newBells(st, "kefu.pull", slog.New(slog.DiscardHandler))
		p := &puller{client: c, token: b.token, refused: b.refused}
		bell := doorbell{Account: "wk1", Poll: true}
		for _, step := range []struct{ rings, want string }{{"", ""}, {"T1", "T1"}, {"T2", "T2"}, {"", ""}} {
			if step.rings != "" {
				if err := b.ring(t.Context(), doorbell{Account: "wk1", Token: step.rings}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.page(t.Context(), &bell, ""); err != nil || bell.Token != step.want {
				t.Errorf("after %q: token %q, %v", step.rings, bell.Token, err)
			}
		}
		if err := b.ring(t.Context(), doorbell{Account: "wk1", Token: "T3"}); err != nil {
			t.Fatal(err)
		}
		if time.Sleep(tokenLife); b.token("wk1") != "" {
			t.Error("a token outlives its time")
		}
	})
}

// A limit of calls without a token holds no call with one.
func TestALimitWithoutATokenHoldsOnlyThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		defer func() { _ = st.Close() }()
		c := newClient("http://wecom", "ww", "hush", st, "kefu", func(string, string, time.Duration) {})
		c.http.Transport = &spoken{answers: []string{`{"errcode":45009,"errmsg":"limit"}`, pageOf(1, 0)}}
		b := newBells(st, "kefu.pull", slog.New(slog.DiscardHandler))
		p := &puller{client: c, token: b.token, refused: b.refused}
		if _, err := p.page(t.Context(), &doorbell{Account: "wk1"}, ""); err == nil {
			t.Error("no limit")
		}
		if _, err := p.page(t.Context(), &doorbell{Account: "wk1", Token: "ENC"}, ""); err != nil {
			t.Errorf("with a token: %v", err)
		}
	})
}

// A call that WeCom is too busy for is repeated three times, and the pull is given up then: the next one is made by a
// doorbell, or by the reconciliation.
func TestABusyPageIsAskedForThreeTimesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := []string{tooBusy, tooBusy, tooBusy}
		passing := &spoken{answers: append(busy, pageOf(1, 0))}
		if rang, err := pullOf(t, passing); err != nil || len(rang) != 0 || passing.calls != 4 {
			t.Errorf("%d calls, %v, rang %v", passing.calls, err, rang)
		}
		lasting := &spoken{answers: append(busy, tooBusy, pageOf(1, 0))}
		if rang, err := pullOf(t, lasting); err != nil || len(rang) != 0 || lasting.calls != 4 {
			t.Errorf("%d calls, %v, rang %v", lasting.calls, err, rang)
		}
	})
}
