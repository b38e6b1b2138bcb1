package wecom

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
)

// A reply whose answer was lost counts where it arrived: repeated after the customer has written again, it takes no
// place in the new window.
func TestRepetitionTakesNoPlaceInTheNextWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ledger := r.site().ledger
	c := newClient(r.api, sim.CorpID, sim.Secret, ledger.marks, "kefu", func(string, string, time.Duration) {})
	replies := &replier{client: c, ledger: ledger, duplicates: []int{95099}, ended: func(string, string) {},
		halt: func(context.Context, error) error { return nil }}
	says := func() {
		id := r.sim.Say(sim.Account, "wm0", "hi")
		err := ledger.pulled(t.Context(), []item{{MsgID: id, Account: sim.Account, User: "wm0", Origin: originCustomer,
			SendTime: time.Now().Unix(), MsgType: "text"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	handle := func(n int) error {
		body, err := json.Marshal(&task{Call: callReply, MsgID: fmt.Sprint("reply", n), User: "wm0",
			OpenKfID: sim.Account, Body: textReply(fmt.Sprint(n))})
		if err != nil {
			t.Fatal(err)
		}
		return replies.Handle(t.Context(), &pawl.Delivery{Message: pawl.Message{Body: body}})
	}
	says()
	if err := r.sim.Fault("send_lost", "1"); err != nil {
		t.Fatal(err)
	}
	if err := handle(0); err == nil {
		t.Fatal("the answer was to be lost")
	}
	if err := r.sim.Fault("send_lost", "0"); err != nil {
		t.Fatal(err)
	}
	says()
	for n := range 1 + budget {
		if err := handle(n); err != nil {
			t.Errorf("reply %d: %v", n, err)
		}
	}
	if err := handle(1 + budget); err == nil || !strings.Contains(err.Error(), "five messages were sent") {
		t.Errorf("one more: %v, want a refusal", err)
	}
	if n := len(r.sim.Sent()); n != 1+budget {
		t.Errorf("%d replies arrived, want %d", n, 1+budget)
	}
}
