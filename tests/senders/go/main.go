// Sends runs through the exporters of the OpenTelemetry SDK for Go for some seconds.
// Arguments and output as of send.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/encoding/gzip"
)

// ledger is what one service sent, and what its exporter saw acknowledged.
type ledger struct {
	Sent         []string `json:"sent"`
	Acknowledged []string `json:"acknowledged"`
	lock         sync.Mutex
}

// observed is an exporter that writes down what was acknowledged.
type observed struct {
	trace.SpanExporter
	told *ledger
}

func (o observed) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := o.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		o.told.lock.Lock()
		defer o.told.lock.Unlock()
		for _, span := range spans {
			o.told.Acknowledged = append(o.told.Acknowledged, span.SpanContext().SpanID().String())
		}
	}
	return err
}

func messages(role, text string) string {
	type object = map[string]any
	made, _ := json.Marshal([]object{{"role": role, "parts": []object{{"type": "text", "content": text}}}})
	return string(made)
}

func oneRun(told *ledger, tracer api.Tracer, number int) {
	start := func(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, api.Span) {
		ctx, span := tracer.Start(ctx, name, api.WithAttributes(attributes...))
		told.Sent = append(told.Sent, span.SpanContext().SpanID().String())
		return ctx, span
	}
	inside, root := start(context.Background(), "invoke_agent sender",
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "sender"))
	chat := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.request.model", "m"),
		attribute.String("gen_ai.input.messages", messages("user", fmt.Sprint("question ", number))),
		attribute.String("gen_ai.output.messages", messages("assistant", fmt.Sprint("answer ", number))),
	}
	tool := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", "look"),
		attribute.String("gen_ai.tool.call.arguments", fmt.Sprintf(`{"n":%d}`, number)),
		attribute.String("gen_ai.tool.call.result", strconv.Itoa(number)),
	}
	for _, step := range [][]attribute.KeyValue{chat, tool, chat} {
		_, span := start(inside, step[0].Value.AsString()+" "+step[1].Value.AsString(), step...)
		span.End()
	}
	root.End()
}

func main() {
	ctx := context.Background()
	http, grpc := os.Args[1]+"/v1/traces", os.Args[2]
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	exporters := map[string]func() (trace.SpanExporter, error){
		"go-http": func() (trace.SpanExporter, error) {
			return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(http))
		},
		"go-http-gzip": func() (trace.SpanExporter, error) {
			return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(http),
				otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		},
		"go-grpc": func() (trace.SpanExporter, error) {
			return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(grpc))
		},
		"go-grpc-gzip": func() (trace.SpanExporter, error) {
			return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(grpc), otlptracegrpc.WithCompressor(gzip.Name))
		},
	}
	told := map[string]*ledger{}
	providers := map[string]*trace.TracerProvider{}
	for name, made := range exporters {
		exporter, err := made()
		check(err)
		told[name] = &ledger{}
		providers[name] = trace.NewTracerProvider(
			trace.WithResource(resource.NewSchemaless(attribute.String("service.name", name))),
			trace.WithBatcher(observed{exporter, told[name]}, trace.WithMaxQueueSize(1_000_000),
				trace.WithBatchTimeout(100*time.Millisecond), trace.WithMaxExportBatchSize(64),
				trace.WithExportTimeout(time.Minute)),
		)
	}
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for number := 0; time.Now().Before(until); number++ {
		for name, provider := range providers {
			oneRun(told[name], provider.Tracer("sender"), number)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, provider := range providers {
		// A batch that an exporter gave up is no failure of this program.
		if err := provider.Shutdown(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(told))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
