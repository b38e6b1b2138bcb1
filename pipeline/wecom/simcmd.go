package wecom

import (
	"context"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/wecom/sim"
)

func simCommand() pipeline.Command {
	return pipeline.Command{
		Use: "sim", Short: "Run a simulator of WeCom's customer service",
		Long: `Run a simulator of WeCom's customer service: callbacks, sync_msg, send_msg, the access token, and faults.

Use api_url: http://ADDR with corp_id ` + sim.CorpID + `, secret ` + sim.Secret + `, token ` + sim.Token + ` and
encoding_aes_key ` + sim.AESKey + `.

POST /control/message has users write, such as {"user":"wm1","text":"hello"}, or {"users":1000,"count":100} for many;
/control/event adds any item; /control/fault sets faults ({"busy":0.1}); /control/clock moves the clock
({"advance":"72h"}); /control/token makes the access token invalid; /control/check checks the callback as WeCom does.
GET /truth says what was sent. Faults are:

` + sim.FaultDocs(),
		Flags: []pipeline.Flag{
			{Name: "listen", Default: "127.0.0.1:9121", Doc: "`ADDR` to listen at"},
			{Name: "callback", Default: "http://127.0.0.1:9120/wecom/callback", Doc: "`URL` of the callback"},
			{Name: "json", Type: pipeline.Bool, Doc: "send callbacks as JSON in place of XML"},
			{Name: "seed", Type: pipeline.Int, Default: "1", Doc: "`N` that makes chance repeat itself"},
			{Name: "fault", Type: pipeline.Texts, Doc: "`NAME=VALUE` that goes wrong; may be repeated"},
		},
		Run: runSim, Example: "  pawl wecom sim\n  pawl wecom sim --fault busy=0.1 --fault callback_repeat=3",
	}
}

func runSim(ctx context.Context, in *pipeline.Invocation) error {
	f := in.Flags
	server := sim.New(sim.Config{
		Callback: f.Text("callback"), Seed: uint64(f.Int("seed")), JSON: f.Bool("json"), //nolint:gosec // any number will do
	})
	if err := pipeline.SetFaults(in, server.Fault); err != nil {
		return err
	}
	return pipeline.Simulate(ctx, in, server, "the simulator listens at http://%s")
}
