package forward

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/forward/sim"
)

func simCommand() pipeline.Command {
	return pipeline.Command{
		Use: "sim", Short: "Run a simulator of the Bot API, with the limits that Telegram publishes",
		Long: `Run a simulator of the Bot API, with the limits that Telegram publishes.

Use any token that looks like one, such as 777:SIM, and api_url: http://ADDR. POST /control/message makes a message, such as
{"chat": -1000000000001, "from": 1001, "text": "/vip", "count": 1}; GET /truth says what was really delivered, with
?messages=1 in full. User 1001 is an administrator everywhere, 2001 is not. The groups are -1000000000001, -1000000000002 and so on.`,
		Flags: []pipeline.Flag{
			{Name: "listen", Default: "127.0.0.1:8081", Doc: "`ADDR` to listen at"},
			{Name: "chats", Type: pipeline.Int, Default: "10", Doc: "`N` groups"},
			{Name: "limits", Type: pipeline.Choice, Choices: []string{"on", "off"}, Default: "on",
				Doc: "on or off: 30 a second in all, 1 a second in a chat, 20 a minute in a group"},
			{Name: "seed", Type: pipeline.Int, Default: "1", Doc: "start of the random numbers: the same `N` repeats a run"},
			{Name: "fault", Type: pipeline.Texts, Doc: "a fault, as `NAME=VALUE`: " + strings.Join(sim.FaultNames(),
				", ") + "; may be repeated"},
		},
		Run: runSim,
	}
}

func runSim(ctx context.Context, in *pipeline.Invocation) error {
	n := in.Flags.Int("chats")
	if n < 1 || n > 1e6 {
		return wrong("--chats goes from 1 to a million")
	}
	server := sim.New(sim.Config{Chats: int(n), Limits: in.Flags.Text("limits") == "on", Seed: uint64(in.Flags.Int("seed"))}) //nolint:gosec // any number will do
	if err := pipeline.SetFaults(in, server.Fault); err != nil {
		return err
	}
	return pipeline.Simulate(ctx, in, server, "the simulator listens at http://%s")
}
