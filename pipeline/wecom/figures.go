package wecom

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
)

const (
	watchEvery = 10 * time.Second
	// cursorLate is when a late cursor is reported: WeCom forgets messages older than three days.
	cursorLate = 24 * time.Hour
)

// figures are the metrics of a pipeline.
type figures struct {
	name                                        string
	callbacks, pulled, unstored, calls, replies observe.Counter
	callbackTime, storeTime                     observe.Durations
	callTime, handlerTime                       observe.Durations

	mu       sync.Mutex
	ages     map[string]time.Duration // of the cursors, by account
	parked   int
	tokenEnd time.Time
}

func newFigures(name string) *figures { return &figures{name: name} }

func (f *figures) callback(result string, took time.Duration) {
	f.callbacks.Add(1, f.name, result)
	f.callbackTime.Observe(took, f.name)
}

func (f *figures) called(api, result string, took time.Duration) {
	f.calls.Add(1, f.name, api, result)
	f.callTime.Observe(took, f.name, api)
}

func (f *figures) asked(took time.Duration, _ error) { f.handlerTime.Observe(took, f.name) }

func (f *figures) ended(state, class string) { f.replies.Add(1, f.name, state, class) }

// knownType bounds the label: WeCom adds types from time to time.
func knownType(msgType string) string {
	known := []string{
		"text", "image", "voice", "video", "file", "location", "link", "business_card", "miniprogram", "msgmenu",
		"channels_shop_product",
		"channels_shop_order", "merged_msg", "channels", "meeting", "schedule", "event",
	}
	if slices.Contains(known, msgType) {
		return msgType
	}
	return "other"
}

// watch looks at what is in the marks, for the metrics and the health.
func (b *bridge) watch(ctx context.Context) {
	for {
		ages, parked := map[string]time.Duration{}, 0
		for id, a := range b.accounts.all(ctx) {
			if a.Parked != "" {
				parked++
			} else if !a.Fresh.IsZero() {
				ages[id] = time.Since(a.Fresh)
			}
		}
		end := b.client.token.expires(ctx)
		b.figures.mu.Lock()
		b.figures.ages, b.figures.parked, b.figures.tokenEnd = ages, parked, end
		b.figures.mu.Unlock()
		if store.Sleep(ctx, watchEvery) != nil {
			return
		}
	}
}

// late says which account has not been pulled to its end for too long.
func (f *figures) late() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, age := range f.ages {
		if age > cursorLate {
			return lateText(id, age)
		}
	}
	return ""
}

func lateText(account string, age time.Duration) string {
	return fmt.Sprintf("account %s was last pulled to its end %v ago; WeCom forgets messages after three days", account,
		age.Round(time.Minute))
}

func (b *bridge) metrics() []observe.Metric {
	f := b.figures
	one := func(value func() float64) func(func(float64, ...string)) {
		return func(set func(float64, ...string)) {
			f.mu.Lock()
			defer f.mu.Unlock()
			set(value(), f.name)
		}
	}
	return []observe.Metric{
		{Name: "pawl_wecom_callbacks_total", Help: "Callbacks, by result.",
			Labels: []string{"pipeline", "result"}, Counter: &f.callbacks},
		{Name: "pawl_wecom_callback_seconds", Help: "Time to answer a callback.", Labels: []string{"pipeline"},
			Durations: &f.callbackTime},
		{Name: "pawl_wecom_messages_total", Help: "Messages that were pulled and stored.",
			Labels: []string{"pipeline", "msg_type"}, Counter: &f.pulled},
		{Name: "pawl_wecom_store_seconds",
			Help:   "Time from a page's arrival until its messages were stored, of each message.",
			Labels: []string{"pipeline"}, Durations: &f.storeTime},
		{Name: "pawl_wecom_store_failures_total", Help: "Times that messages could not be stored.",
			Labels: []string{"pipeline"}, Counter: &f.unstored},
		{Name: "pawl_wecom_api_calls_total", Help: "Calls of WeCom, by API and errcode.",
			Labels: []string{"pipeline", "api", "result"}, Counter: &f.calls},
		{Name: "pawl_wecom_api_call_seconds", Help: "Time of calls of WeCom.", Labels: []string{"pipeline", "api"},
			Durations: &f.callTime},
		{Name: "pawl_wecom_handler_seconds", Help: "Time of the handler.", Labels: []string{"pipeline"},
			Durations: &f.handlerTime},
		{Name: "pawl_wecom_replies_total", Help: "Replies that ended, by state and class.",
			Labels: []string{"pipeline", "state", "class"}, Counter: &f.replies},
		{
			Name:   "pawl_wecom_cursor_age_seconds",
			Help:   "Time since an account was last pulled to its end, or its cursor moved.",
			Labels: []string{"pipeline", "open_kfid"},
			Gauge: func(set func(float64, ...string)) {
				f.mu.Lock()
				defer f.mu.Unlock()
				for id, age := range f.ages {
					set(age.Seconds(), f.name, id)
				}
			},
		},
		{Name: "pawl_wecom_accounts_parked", Help: "Accounts that are not pulled, because WeCom refuses them.",
			Labels: []string{"pipeline"}, Gauge: one(func() float64 { return float64(f.parked) })},
		{
			Name: "pawl_wecom_token_expires_timestamp_seconds",
			Help: "When the access token is fetched again; 0: there is none.", Labels: []string{"pipeline"},
			Gauge: one(func() float64 {
				if f.tokenEnd.IsZero() {
					return 0
				}
				return float64(f.tokenEnd.Unix())
			}),
		},
	}
}
