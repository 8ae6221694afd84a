# Writes the URLs of links into the rules for vmalert: sed -i -f vmalert.sed rules/zmon.yaml
# In Prometheus they are external labels. vmalert would add those to all recorded series.
s|{{ $externalLabels.zmon_dashboard }}|https://zmon.example.org|g
s|{{ with $externalLabels.zmon_docs }}{{ . }}/{{ end }}|https://git.example.org/zmon/blob/main/|g
