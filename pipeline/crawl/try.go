package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/pawl-dev/pawl/pipeline"
)

func tryCommand() pipeline.Command {
	return pipeline.Command{
		Use: "try URL", Short: "Ask for one page, and print what a module reads from it", Args: "one URL", MinArgs: 1,
		MaxArgs: 1,
		Long: `Asks for one page, as a crawl would, and prints its record with the fields that the
module reads from it. Nothing is stored, and no link is followed. A redirect is followed.`,
		Example: `  pawl crawl try https://example.com/ --module shop.yaml   # needs a network`,
		Flags: []pipeline.Flag{
			{Name: "module", Doc: "the `FILE` of the module"},
			{Name: "allow-private", Type: pipeline.Bool,
				Doc: "ask addresses of private networks and of this machine, too"},
		},
		Run: try,
	}
}

func try(ctx context.Context, in *pipeline.Invocation) error {
	o := Defaults()
	if file := in.Flags.Text("module"); file != "" {
		var err error
		if o, _, err = moduleOptions(in, file); err != nil {
			return usage(err)
		}
	}
	o.Seeds, o.AllowPrivate = in.Args, o.AllowPrivate || in.Flags.Bool("allow-private")
	seeds, err := o.check()
	if err != nil {
		return usage(err)
	}
	c := newCrawler(Name, "", o, seeds)
	at := seeds[0]
	for range maxRedirects {
		rules, err := c.robots(ctx, c.hosts.at(at), at)
		if err != nil {
			return err
		}
		if rules.denied != nil {
			return &pipeline.Error{What: "robots.txt of " + at.Host + " cannot be read, so nothing there is allowed",
				Err: rules.denied, Next: "try it again, or set ignore_robots in the module"}
		}
		if !o.IgnoreRobots && !rules.Allows(at) {
			return &pipeline.Error{What: "robots.txt disallows " + at.String(),
				Next: "ask for another page, or set ignore_robots in the module"}
		}
		a, err := c.fetch.get(ctx, at)
		if err != nil {
			return &pipeline.Error{What: "cannot get " + at.String(), Err: err, Next: "look at it in a browser"}
		}
		if a.location == nil {
			record, _, err := c.record(ctx, at, &request{URL: seeds[0].String()}, a)
			if err != nil {
				return &pipeline.Error{What: "cannot read " + at.String() + " as the module wants it", Err: err,
					Next: "correct the module, or try it with a page that it is for"}
			}
			return in.Document(record, func(w io.Writer) error {
				e := json.NewEncoder(w)
				e.SetIndent("", "  ")
				e.SetEscapeHTML(false)
				return e.Encode(record)
			})
		}
		at = a.location
	}
	return &pipeline.Error{What: "cannot get " + in.Args[0], Err: errors.New("too many redirects")}
}
