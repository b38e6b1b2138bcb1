package wecom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func commands() []pipeline.Command {
	which := pipeline.Which()
	return []pipeline.Command{{
		Use: "wecom", Short: "Customer-service messages of WeCom: accounts, replies, and a simulator",
		Commands: []pipeline.Command{
			simCommand(),
			{
				Use: "status", Short: "Show the customer-service accounts", Flags: []pipeline.Flag{which},
				Run: runStatus, Effect: pipeline.Looks,
				Example: "  pawl wecom status\n  pawl wecom status -o json",
			},
			{
				Use: "pull OPEN_KFID", Short: "Have the daemon pull an account now, even if it is parked", MinArgs: 1,
				MaxArgs: 1, Args: "an account",
				Flags: []pipeline.Flag{which, {Name: "wait", Type: pipeline.Duration, Default: "10s",
					Doc: "how long to wait for the daemon"}},
				Run: runPull, Effect: pipeline.Changes, Example: "  pawl wecom pull wkAJ2GCAAASSm4_FhToWMFea0xAFfd3Q",
			},
			{Use: "replies", Short: "Look at replies", Commands: []pipeline.Command{{
				Use: "ls", Short: "List replies", Run: runReplies, Effect: pipeline.Looks,
				Flags: []pipeline.Flag{
					which, {Name: "user", Doc: "only those to this `USER`"},
					{Name: "state", Type: pipeline.Choice, Choices: []string{pending, sent, refused, failed},
						Doc: "only those in this state"},
				},
				Example: "  pawl wecom replies ls --state refused\n  pawl wecom replies ls --user wmXXXX -o json",
			}}},
			{Use: "media", Short: "Fetch media", Commands: []pipeline.Command{{
				Use: "get ID", Short: "Fetch an image, voice, video or file by its media id", MinArgs: 1, MaxArgs: 1,
				Args: "a media id",
				Flags: []pipeline.Flag{which, {Name: "to", Doc: "`FILE` to write; - is the standard output",
					Default: "-"}},
				Run:     runMedia,
				Example: "  pawl wecom media get 2iSLeVyqzk4eX0IB5kTi9Ljfa2rt9dwfq5WKRQ4Nvvgw --to photo.jpg",
			}}},
		},
	}}
}

// site is a section of the file with its store, for commands.
type site struct {
	name    string
	section pipeline.Section
	store   store.Store
	marks   store.Shared
	client  *client
	ledger  *ledger
	*accounts
}

func openSite(ctx context.Context, in *pipeline.Invocation) (*site, error) {
	name, section, err := in.Chosen(Name)
	if err != nil {
		return nil, err
	}
	s, err := in.Open(ctx, "", true)
	if err != nil {
		return nil, err
	}
	marks, ok := store.As[store.Shared](s, store.CanMarks)
	if !ok {
		return nil, &pipeline.Error{What: "the store keeps no marks", Next: "name the daemon's store with --store"}
	}
	st := &site{name: name, section: section, store: s, marks: marks, ledger: newLedger(marks, name),
		accounts: accountsOf(marks, name)}
	st.client = newClient(section.Text("api_url"), section.Text("corp_id"), section.Text("secret"), marks, name,
		func(string, string, time.Duration) {})
	return st, nil
}

func runPull(ctx context.Context, in *pipeline.Invocation) error {
	st, err := openSite(ctx, in)
	if err != nil {
		return err
	}
	id := in.Args[0]
	before, err := st.get(ctx, id)
	if err != nil {
		return err
	}
	if in.DryRun {
		_, _ = fmt.Fprintf(in.Stderr, "would ask for a pull of %s\n", id)
		return nil
	}
	asked := time.Now()
	bell := doorbell{Account: id, Poll: true, Unpark: true}
	if err := newBells(st.store, st.name+"."+stagePull, slog.New(slog.DiscardHandler)).ring(ctx, bell); err != nil {
		return err
	}
	result := struct {
		Account string `json:"open_kfid"`
		Pulled  bool   `json:"pulled"`
		New     int64  `json:"messages"`
	}{Account: id}
	for time.Since(asked) < in.Flags.Duration("wait") {
		now, err := st.get(ctx, id)
		if err != nil {
			return err
		}
		if now.Parked != "" && now.version != before.version {
			return &pipeline.Error{What: "account " + id + " is parked", Err: errors.New(now.Parked),
				Next: "check its id in the console of WeCom"}
		}
		if now.LastPull.After(asked) && !now.Behind {
			result.Pulled, result.New = true, now.Pulled-before.Pulled
			break
		}
		if err := store.Sleep(ctx, tokenLook); err != nil {
			return err
		}
	}
	text := "pulled %s: %s\n"
	if !result.Pulled {
		text = "asked for %s; no daemon has pulled it yet (%s)\n"
	}
	return in.Print(result, text, result.Account, pipeline.Some(result.New, "message", "messages"))
}

func runReplies(ctx context.Context, in *pipeline.Invocation) error {
	st, err := openSite(ctx, in)
	if err != nil {
		return err
	}
	all, err := st.listReplies(ctx)
	if err != nil {
		return err
	}
	user, state := in.Flags.Text("user"), in.Flags.Text("state")
	rows := []reply{}
	for _, r := range all {
		if r.Open = false; (user == "" || r.User == user) && (state == "" || r.State == state) {
			rows = append(rows, r)
		}
	}
	return in.Rows([]string{"MSGID", "MESSAGE", "CALL", "INDEX", "USER", "ACCOUNT", "STATE", "CLASS", "ERRCODE",
		"ATTEMPTS"}, rows, func(i int) []string {
		r := &rows[i]
		return []string{r.MsgID, r.MessageID, r.Call, fmt.Sprint(r.Index), r.User, r.OpenKfID, r.State, r.Class,
			fmt.Sprint(r.Errcode), fmt.Sprint(r.Attempts)}
	})
}
