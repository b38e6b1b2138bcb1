package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/forward/sim"
)

func simCommand() pipeline.Command {
	return pipeline.Command{
		Use: "sim", Short: "Run a simulator of the Bot API, with the limits that Telegram publishes",
		Long: `Run a simulator of the Bot API, with the limits that Telegram publishes.

Use any token that looks like one, such as 777:SIM, and api_url: http://ADDR. POST /control/message makes a message, such as
{"chat": -1000000000001, "from": 1001, "text": "/vip", "count": 1}; GET /truth says what really happened, with ?messages=1
in full. User 1001 is an administrator everywhere, 2001 is not. The groups are -1000000000001, -1000000000002 and so on.`,
		Flags: []pipeline.Flag{
			{Name: "listen", Default: "127.0.0.1:8081", Doc: "`ADDR` to listen at"},
			{Name: "chats", Type: pipeline.Int, Default: "10", Doc: "`N` groups"},
			{Name: "limits", Type: pipeline.Choice, Choices: []string{"on", "off"}, Default: "on",
				Doc: "on or off: 30 a second in all, 1 a second in a chat, 20 a minute in a group"},
			{Name: "seed", Type: pipeline.Int, Default: "1", Doc: "`N` that makes chance repeat itself"},
			{Name: "fault", Type: pipeline.Texts, Doc: "`NAME=VALUE` that goes wrong: " + strings.Join(sim.FaultNames(),
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
	for _, f := range in.Flags.Texts("fault") {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return wrong("--fault is NAME=VALUE (got %q)", f)
		}
		if err := server.Fault(name, value); err != nil {
			return &pipeline.Error{Code: pipeline.ExitUsage, What: "--fault is not right", Err: err, Next: seeHelp}
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", in.Flags.Text("listen"))
	if err != nil {
		return &pipeline.Error{What: "the simulator cannot listen", Err: err,
			Next: "choose another address with --listen"}
	}
	_, _ = fmt.Fprintf(in.Stderr, "the simulator listens at http://%s\n", l.Addr())
	s := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
