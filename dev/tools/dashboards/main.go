// Command dashboards writes the dashboards for Grafana, one file each, into the folder that is its argument:
// make dashboards.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "error: one argument is needed: the folder to write to")
		os.Exit(2)
	}
	for _, b := range boards {
		text, err := b.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], b.name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: dashboard %s: %v\n", b.name, err)
			os.Exit(1)
		}
	}
}

// board is a dashboard.
type board struct {
	name, title, about string
	by                 string // a label to choose by, and its variable
	of                 string // the metric that has its values
	panels             []panel
}

// panel is a graph. In its queries {$S} chooses by job and instance, and {$T} also by the board's label.
type panel struct {
	title, about, unit string
	queries            []query
	alerts             []string // that are about it: pages in docs/runbook
}

type query struct{ expr, legend string }

var source = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

const (
	width, height = 12, 8
	pages         = "https://github.com/pawl-dev/pawl/blob/main/docs/runbook"
)

func (b *board) json() ([]byte, error) {
	d := dashboard.NewDashboardBuilder(b.title).Uid("pawl-"+b.name).Description(b.about).Tags([]string{"pawl"}).
		Time("now-3h", "now").Refresh("30s").Timezone(common.TimeZoneBrowser).Readonly().
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choice("job", "label_values(pawl_ready, job)")).
		WithVariable(choice("instance", `label_values(pawl_ready{job=~"$job"}, instance)`)).
		Annotation(dashboard.NewAnnotationQueryBuilder().Name("Alerts").Datasource(source).Enable(true).IconColor("red").
			Expr(`ALERTS{alertname=~"Pawl.*", alertstate="firing"}`).TitleFormat("{{alertname}}").TextFormat("{{topic}}")).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).Icon("doc").
			Url(pages + "/README.md").TargetBlank(true)).
		Link(dashboard.NewDashboardLinkBuilder("Pawl").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"pawl"}).AsDropdown(true).KeepTime(true))
	if b.by != "" {
		d = d.WithVariable(choice(b.by, `label_values(`+b.of+`{job=~"$job"}, `+b.by+`)`))
	}
	for i := range b.panels {
		d = d.WithPanel(b.panels[i].build(b, i))
	}
	built, err := d.Build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

func choice(name, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(name).Datasource(source).Multi(true).IncludeAll(true).AllValue(".+").
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Query(dashboard.StringOrMap{String: &values}).
		Sort(dashboard.VariableSortAlphabeticalAsc)
}

func (p *panel) build(b *board, i int) *timeseries.PanelBuilder {
	const common = `job=~"$job",instance=~"$instance"`
	mine := common
	if b.by != "" {
		mine += "," + b.by + `=~"$` + b.by + `"`
	}
	about := p.about
	if len(p.alerts) > 0 {
		about += " Alerts: " + strings.Join(p.alerts, ", ") + "."
	}
	out := timeseries.NewPanelBuilder().Id(uint32(i + 1)).Title(p.title).Description(about).Unit(p.unit).Min(0).
		Datasource(source).FillOpacity(10).
		GridPos(dashboard.GridPos{H: height, W: width, X: uint32(i % 2 * width), Y: uint32(i / 2 * height)})
	for n, q := range p.queries {
		expr := strings.NewReplacer("{$T", "{"+mine, "{$S", "{"+common).Replace(q.expr)
		out = out.WithTarget(prometheus.NewDataqueryBuilder().Expr(expr).LegendFormat(q.legend).
			RefId(string(rune('A' + n))).Datasource(source).Range())
	}
	var links []cog.Builder[dashboard.DashboardLink]
	for _, a := range p.alerts {
		links = append(links, dashboard.NewDashboardLinkBuilder(a).Type(dashboard.DashboardLinkTypeLink).
			Url(pages+"/"+a+".md").TargetBlank(true))
	}
	return out.Links(links)
}
