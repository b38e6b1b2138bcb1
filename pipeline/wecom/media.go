package wecom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
)

func runMedia(ctx context.Context, in *pipeline.Invocation) error {
	st, err := openSite(ctx, in)
	if err != nil {
		return err
	}
	to := in.Flags.Text("to")
	if to == "-" {
		_, err = st.client.media(ctx, in.Args[0], in.Stdout)
		return notFetched(err)
	}
	n, err := st.client.saveMedia(ctx, in.Args[0], to)
	if err == nil {
		_, _ = fmt.Fprintf(in.Stderr, "wrote %d bytes to %s\n", n, to)
	}
	return notFetched(err)
}

// notFetched says what an error of WeCom is about. One that says so itself stays as it is.
func notFetched(err error) error {
	if _, told := errors.AsType[*pipeline.Error](err); err == nil || told {
		return err
	}
	return &pipeline.Error{What: "the file cannot be fetched from WeCom", Err: err,
		Next: "check the media id; `pawl pipelines ls` says whether WeCom answers the daemon"}
}

// saveMedia fetches a file. What had its name stays until all of it is there.
func (c *client) saveMedia(ctx context.Context, id, to string) (n int64, err error) {
	refused := func(err error) error {
		return &pipeline.Error{What: "the file cannot be written", Err: err, Next: "choose another one with --to"}
	}
	if info, err := os.Stat(to); err == nil && !info.Mode().IsRegular() {
		return 0, refused(fmt.Errorf("%s is not a file", to))
	}
	var fetch error
	err = pipeline.WriteFile(to, 0o644, func(w io.Writer) error {
		n, fetch = c.media(ctx, id, w)
		return fetch
	})
	if err != nil && fetch == nil {
		err = refused(err)
	}
	return n, err
}

// media fetches a file.
func (c *client) media(ctx context.Context, id string, out io.Writer) (n int64, err error) {
	const api = "media/get"
	err = c.do(ctx, api, func(token string) error {
		reply, err := c.open(ctx, http.MethodGet, api, url.Values{"access_token": {token}, "media_id": {id}}, nil)
		if err != nil {
			return err
		}
		defer func() { _ = reply.Body.Close() }()
		kind := reply.Header.Get("Content-Type") // a file may have those of errors, too
		if reply.Header.Get("Content-Disposition") == "" &&
			(strings.Contains(kind, "json") || strings.HasPrefix(kind, "text/plain")) {
			text, err := io.ReadAll(io.LimitReader(reply.Body, maxCallback))
			if err != nil {
				return &uncertainError{api, errors.New("the answer broke off")}
			}
			return c.read(api, text, nil)
		}
		if n, err = io.Copy(out, reply.Body); err != nil {
			return fmt.Errorf("%s: the file broke off: %w", api, err)
		}
		return nil
	})
	return n, err
}
