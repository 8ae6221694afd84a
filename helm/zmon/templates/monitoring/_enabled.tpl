{{/* "yes" if objects of the Prometheus operator are wanted and the cluster knows them. */}}
{{- define "zmon.monitoring" -}}
{{- $known := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- if and (eq .Values.monitoring.enabled "always") (not $known) -}}
{{ fail "monitoring.enabled is always, and this cluster does not know monitoring.coreos.com/v1: install the Prometheus operator, or set monitoring.enabled to auto or never" }}
{{- end -}}
{{- if and $known (ne .Values.monitoring.enabled "never") }}yes{{ end }}
{{- end }}

{{/* The labels of an object that the operator selects. Argument: (list $ "hub"). */}}
{{- define "zmon.monitoringLabels" -}}
{{ include "zmon.labels" . }}
{{- with (index . 0).Values.monitoring.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
