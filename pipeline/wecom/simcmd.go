package wecom

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
	"github.com/pawl-dev/pawl/store"
)

func simCommand() pipeline.Command {
	return pipeline.Command{
		Use: "sim", Short: "Run a simulator of WeCom's customer service",
		Long: `Run a simulator of WeCom's customer service: callbacks, sync_msg, send_msg, the access token, and faults.

Use api_url: http://ADDR with corp_id ` + sim.CorpID + `, secret ` + sim.Secret + `, token ` + sim.Token + ` and
encoding_aes_key ` + sim.AESKey + `, or other ones by the flags.

POST /control/message has users write, such as {"user":"wm1","text":"hello"}, or {"users":1000,"count":100} for many;
/control/event adds any item; /control/fault sets faults ({"busy":0.1}); /control/clock moves the clock
({"advance":"72h"}); /control/token makes the access token invalid; /control/check checks the callback as WeCom does.
GET /truth says what was sent. Faults are:

` + sim.FaultDocs(),
		Flags: []pipeline.Flag{
			{Name: "listen", Default: "127.0.0.1:9121", Doc: "`ADDR` to listen at"},
			{Name: "callback", Default: "http://127.0.0.1:9120/wecom/callback", Doc: "`URL` of the callback"},
			{Name: "account", Type: pipeline.Texts, Doc: "`OPEN_KFID` of an account; may be repeated (default " +
				sim.Account + ")"},
			{Name: "corp-id", Default: sim.CorpID, Doc: "`ID` of the corporation"},
			{Name: "secret", Default: sim.Secret, Doc: "`SECRET` of the application"},
			{Name: "token", Default: sim.Token, Doc: "`TOKEN` of the callback"},
			{Name: "aes-key", Default: sim.AESKey, Doc: "`KEY`: EncodingAESKey of the callback"},
			{Name: "json", Type: pipeline.Bool, Doc: "send callbacks as JSON in place of XML"},
			{Name: "users", Type: pipeline.Int, Default: "0", Doc: "`N` users who write from the start"},
			{Name: "every", Type: pipeline.Duration, Default: "1s", Doc: "how often each of them writes"},
			{Name: "seed", Type: pipeline.Int, Default: "1", Doc: "start of the random numbers: the same `N` repeats a run"},
			{Name: "fault", Type: pipeline.Texts, Doc: "a fault, as `NAME=VALUE`; may be repeated"},
		},
		Run: runSim, Example: "  pawl wecom sim --users 3\n  pawl wecom sim --fault busy=0.1 --fault callback_repeat=3",
	}
}

func runSim(ctx context.Context, in *pipeline.Invocation) error {
	f := in.Flags
	server, err := sim.New(sim.Config{
		CorpID: f.Text("corp-id"), Secret: f.Text("secret"), Token: f.Text("token"), AESKey: f.Text("aes-key"),
		Accounts: f.Texts("account"),
		Callback: f.Text("callback"), Seed: uint64(f.Int("seed")), JSON: f.Bool("json"), //nolint:gosec // any number will do
	})
	if err != nil {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "--aes-key", Err: err}
	}
	if err := pipeline.SetFaults(in, server.Fault); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if n := int(f.Int("users")); n > 0 {
		account := sim.Account
		if ids := f.Texts("account"); len(ids) > 0 {
			account = ids[0]
		}
		go talk(ctx, server, account, n, f.Duration("every"))
	}
	return pipeline.Simulate(ctx, in, server, "the simulator listens at http://%s")
}

// talk has users write until ctx ends.
func talk(ctx context.Context, s *sim.Server, account string, users int, every time.Duration) {
	for n := 1; store.Sleep(ctx, every) == nil; n++ {
		for u := range users {
			s.Say(account, fmt.Sprintf("wm-user-%d", u+1), fmt.Sprintf("message %d", n))
		}
	}
}
