package crawl

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
)

// urlKeys are written as one text, 16 bytes each.
type urlKeys []urlKey

// MarshalJSON implements [json.Marshaler].
func (k urlKeys) MarshalJSON() ([]byte, error) {
	all := make([]byte, 0, len(k)*len(urlKey{}))
	for i := range k {
		all = append(all, k[i][:]...)
	}
	return json.Marshal(base64.RawStdEncoding.EncodeToString(all))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (k *urlKeys) UnmarshalJSON(text []byte) error {
	var coded string
	if err := json.Unmarshal(text, &coded); err != nil {
		return err
	}
	all, err := base64.RawStdEncoding.DecodeString(coded)
	if err != nil {
		return err
	}
	for ; len(all) >= len(urlKey{}); all = all[len(urlKey{}):] {
		*k = append(*k, urlKey(all))
	}
	return nil
}

// depths are the depths of pages by the links between them. Which link to a page is found first depends on the pace of
// the site, on failures and on how many processes crawl; its depth does not: it is the length of the shortest
// way from a seed. The same holds for the URL of a page that only redirects lead to.
type depths struct {
	of      map[urlKey]depth
	moved   map[urlKey]origin // by where a redirect leads
	changed bool
}

type depth struct {
	n      int64
	linked bool // a seed, or a page links to it: not only redirects
}

// origin is a URL that redirects.
type origin struct {
	key urlKey
	url string
}

// sitemapKey stands for all sitemaps.
var sitemapKey = urlKey{}

func newDepths(seeds []*url.URL) *depths {
	d := &depths{of: map[urlKey]depth{sitemapKey: {}}, moved: map[urlKey]origin{}}
	for _, u := range seeds {
		d.of[keyOf(u)] = depth{linked: true}
	}
	return d
}

// key is that of the request that an outcome is about.
func (o *outcome) key() urlKey {
	if u, err := url.Parse(o.URL); err == nil && o.URL != "" {
		return keyOf(u)
	}
	return sitemapKey
}

// add takes the links of an outcome into account. What changes by it is not final.
func (d *depths) add(o *outcome) {
	key := o.key()
	from, known := d.of[key]
	if !known {
		return // what leads to it comes later
	}
	for _, to := range o.Links {
		d.reach(to, depth{from.n + sitemapDepth, true})
	}
	for _, to := range o.Next {
		d.reach(to, depth{from.n, o.Kind != kindMoved})
		if o.Kind == kindMoved {
			d.lead(to, origin{key, o.URL}, from.n)
		}
	}
}

func (d *depths) reach(to urlKey, by depth) {
	was, known := d.of[to]
	if known && was.n <= by.n && (was.linked || !by.linked) {
		return
	}
	if known {
		by.n, by.linked = min(was.n, by.n), was.linked || by.linked
	}
	d.of[to], d.changed = by, true
}

// lead keeps the first of the redirects that lead to a page: by depth, then by URL.
func (d *depths) lead(to urlKey, from origin, n int64) {
	was, known := d.moved[to]
	if !known || n < d.of[was.key].n || n == d.of[was.key].n && from.url < was.url {
		d.moved[to], d.changed = from, true
	}
}

// correct gives a page its depth and, where only redirects lead to it, the URL that they begin with.
func (d *depths) correct(o *outcome) {
	key := o.key()
	if at, known := d.of[key]; known {
		o.Page.Depth = at.n
	}
	for range maxRedirects {
		from, redirected := d.moved[key]
		if d.of[key].linked || !redirected {
			return
		}
		key, o.Page.URL = from.key, from.url
	}
}

// tooDeep reports whether the links of a page are beyond a bound; a negative one is none.
func (d *depths) tooDeep(o *outcome, bound int64) bool {
	return bound >= 0 && d.of[o.key()].n+1 > bound
}
